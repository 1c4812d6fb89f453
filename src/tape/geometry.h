// How a tensor lies in its storage: enough to rebuild the tensor over another copy of the same bytes.
#pragma once

#include <array>
#include <deque>
#include <string>

#include <c10/util/flat_hash_map.h>

#include "tape/torch.h"

namespace encore::tape {

struct Geometry {
  c10::SmallVector<int64_t, 5> sizes;
  c10::SmallVector<int64_t, 5> strides;
  int64_t offset = 0;  // in elements
  at::ScalarType dtype = at::kFloat;
  bool conj = false;
  bool neg = false;
  bool wrapped_number = false;  // takes part in type promotion as a plain number does

  static Geometry of(const at::Tensor& tensor);
  /// Of what is known to be somewhere in the storage only: apart from nothing.
  static const Geometry& unknown();
  /// Of what is no tensor.
  static const Geometry& none();
  /// Whether the tensor lies like this, down to the last bit of it.
  bool is_of(const at::Tensor& tensor) const;

  /// A tensor of this geometry over `storage`, without history and with a version counter of its own.
  at::Tensor over(const c10::Storage& storage) const;

  /// True if the tensor fills a storage of `nbytes` exactly, each byte once.
  bool covers(int64_t nbytes) const;

  /// The bytes of the storage from the first element to the last: the first of them, and the one past the last.
  std::pair<int64_t, int64_t> span() const;

  /// True if no element of the one lies where an element of the other does. May miss some cases of that.
  bool is_apart_from(const Geometry& other) const;

  int64_t numel() const;
  int64_t nbytes() const;
  std::string text() const;  // "float[8, 256]"

  bool operator==(const Geometry& other) const;
  bool operator!=(const Geometry& other) const { return !(*this == other); }
};

/// Geometries, each once: a model has few, and its ops many tensors.
class Geometries {
 public:
  /// Of a strided tensor. Stays where it is as long as this lives.
  const Geometry* of(const at::Tensor& tensor);
  size_t nbytes() const { return all_.size() * (sizeof(Geometry) + 2 * sizeof(void*)); }

 private:
  const Geometry* find(const at::Tensor& tensor);

  std::array<const Geometry*, 2> recent_{};
  size_t next_recent_ = 0;
  std::deque<Geometry> all_;
  ska::flat_hash_map<uint64_t, std::vector<const Geometry*>> by_hash_;
};

/// True for what the tape can rebuild from bytes: plain strided CPU tensors. Everything else is kept as it is.
bool is_plain(const at::Tensor& tensor);

/// The same bytes and version counter, without history: safe to hold from inside the graph.
at::Tensor detached_alias(const at::Tensor& tensor);

/// A new CPU storage of `nbytes`, its bytes not set.
c10::Storage new_storage(int64_t nbytes);

/// A new CPU storage with the bytes of `source`.
c10::Storage copy_storage(const c10::Storage& source);

}  // namespace encore::tape
