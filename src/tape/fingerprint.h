// What bytes were, to find out whether they still are.
#pragma once

#include <vector>

#include "tape/geometry.h"

namespace encore::tape {

/// How much of a storage a fingerprint is of.
enum class Coverage {
  kGlance,     // 256 bytes
  kWide,       // every byte of up to kWideBytes, that many of a larger one
  kEveryByte,  // of whatever size
};
constexpr size_t kWideBytes = size_t{1} << 24;

/// What the bytes of a storage were, by a 64-bit hash. C++ optimizers change parameters through data(), which no
/// version counter sees; a glance does, and costs less than a microsecond.
struct Fingerprint {
  uint64_t hash = 0;
  uint64_t glance = 0;  // the hash of a glance
  Coverage coverage = Coverage::kGlance;

  static Fingerprint of(const c10::Storage& storage, Coverage coverage);
  /// As far as it reaches.
  bool is_of(const c10::Storage& storage) const;
  /// As far as a glance reaches, or every byte if it is of every byte.
  bool looks_like(const c10::Storage& storage) const;
};

/// What all bytes of a storage were, by a hash of each piece: who reads a part looks at that part alone. Of bytes that
/// others may write to through a pointer, such as those of zeros().
class Imprint {
 public:
  explicit Imprint(const c10::Storage& storage);
  bool is_of(const c10::Storage& storage) const;
  /// As far as `part` of the storage reaches.
  bool is_of(const c10::Storage& storage, const Geometry& part) const;

 private:
  bool agrees(const c10::Storage& storage, size_t first, size_t end) const;

  size_t nbytes_;
  std::vector<uint64_t> pieces_;
};

/// A 64-bit hash of the tensor's elements, in their order.
uint64_t hash_elements(const at::Tensor& tensor);

}  // namespace encore::tape
