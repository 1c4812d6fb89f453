// A value of two kinds of elements, zero and one other, held as one bit an element.
#pragma once

#include "tape/geometry.h"

namespace encore::tape {

class PackedMask {
 public:
  /// Null for a tensor that does not fill its storage, or with elements of more kinds than zero and one other. Elements
  /// are compared by their bits, so that what is unpacked is the same to the last of them.
  static std::shared_ptr<const PackedMask> of(const at::Tensor& tensor);

  /// The bytes of the tensor's storage, anew.
  c10::Storage unpack() const;

  /// What it takes to hold it.
  int64_t nbytes() const { return static_cast<int64_t>(bits_.nbytes()); }

 private:
  PackedMask(c10::Storage bits, int64_t size, size_t element_bytes, uint64_t one)
      : bits_(std::move(bits)), size_(size), element_bytes_(element_bytes), one_(one) {}

  c10::Storage bits_;
  int64_t size_;
  size_t element_bytes_;
  uint64_t one_;  // the bits of the elements that are not zero
};

}  // namespace encore::tape
