// Tensors as bytes and back.
#include "tape/geometry.h"

#include <cstring>
#include <typeinfo>

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include "base/plain_numbers.h"
#include "tape/compat.h"

namespace encore::tape {

Geometry Geometry::of(const at::Tensor& tensor) {
  Geometry geometry;
  geometry.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  geometry.dtype = tensor.scalar_type();
  if (tensor.layout() != c10::kStrided) {
    return geometry;
  }
  geometry.strides.assign(tensor.strides().begin(), tensor.strides().end());
  geometry.offset = tensor.storage_offset();
  geometry.conj = tensor.is_conj();
  geometry.neg = tensor.is_neg();
  geometry.wrapped_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return geometry;
}

at::Tensor Geometry::over(const c10::Storage& storage) const {
  std::optional<c10::InferenceMode> no_inference;
  if (c10::InferenceMode::is_enabled()) {
    no_inference.emplace(false);  // of an inference tensor nobody could see whether it changed, whoever asks for it
  }
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                   c10::scalarTypeToTypeMeta(dtype));
  impl->set_sizes_and_strides(sizes, strides);
  impl->set_storage_offset(offset);
  if (wrapped_number) {
    impl->set_wrapped_number(true);
  }
  at::Tensor tensor(std::move(impl));
  if (conj) {
    tensor._set_conj(true);
  }
  if (neg) {
    tensor._set_neg(true);
  }
  return tensor;
}

namespace {

using Dims = c10::SmallVector<std::pair<int64_t, int64_t>, 5>;  // stride and size, largest stride first

/// Whether `distance` is a sum of multiples of the strides, each less often than the size of its dimension.
bool can_reach(int64_t distance, const Dims& dims, size_t from) {
  if (distance == 0) {
    return true;
  }
  if (from == dims.size()) {
    return false;
  }
  const auto [stride, size] = dims[from];
  const int64_t times = std::min(distance / stride, size - 1);
  const bool rest_is_ahead = can_reach(distance - times * stride, dims, from + 1);
  return rest_is_ahead || (times + 1 < size && can_reach((times + 1) * stride - distance, dims, from + 1));
}

}  // namespace

const Geometry& Geometry::unknown() {
  static const Geometry geometry = [] {
    Geometry nowhere;
    nowhere.sizes = {0};
    nowhere.strides = {0};
    return nowhere;
  }();
  return geometry;
}

const Geometry& Geometry::none() {
  static const Geometry geometry;
  return geometry;
}

bool Geometry::is_of(const at::Tensor& tensor) const {
  return tensor.sizes().equals(sizes) && tensor.strides().equals(strides) && tensor.storage_offset() == offset &&
         tensor.scalar_type() == dtype && tensor.is_conj() == conj && tensor.is_neg() == neg &&
         tensor.unsafeGetTensorImpl()->is_wrapped_number() == wrapped_number;
}

const Geometry* Geometries::of(const at::Tensor& tensor) {
  for (const Geometry* recent : recent_) {  // the next tensor often lies like one of the last
    if (recent != nullptr && recent->is_of(tensor)) {
      return recent;
    }
  }
  return recent_[next_recent_++ % recent_.size()] = find(tensor);
}

const Geometry* Geometries::find(const at::Tensor& tensor) {
  const c10::IntArrayRef sizes = tensor.sizes();
  const c10::IntArrayRef strides = tensor.strides();
  // Offsets and types tell apart what the rest does not; chains are looked along for what is left.
  uint64_t hash = static_cast<uint64_t>(tensor.storage_offset()) * 31 + static_cast<uint64_t>(tensor.scalar_type());
  for (size_t i = 0; i < sizes.size(); ++i) {
    hash = (hash ^ static_cast<uint64_t>(sizes[i])) * 0x9E3779B97F4A7C15ULL;
    hash = (hash ^ static_cast<uint64_t>(strides[i])) * 0xC2B2AE3D27D4EB4FULL;
  }
  std::vector<const Geometry*>& alike = by_hash_[hash];
  for (const Geometry* geometry : alike) {
    if (geometry->is_of(tensor)) {
      return geometry;
    }
  }
  alike.push_back(&all_.emplace_back(Geometry::of(tensor)));
  return alike.back();
}

bool Geometry::is_apart_from(const Geometry& other) const {
  if (dtype != other.dtype || numel() == 0 || other.numel() == 0) {
    return false;
  }
  if (span().second <= other.span().first || other.span().second <= span().first) {
    return true;
  }
  if (sizes != other.sizes || strides != other.strides) {
    return false;
  }
  Dims dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[i] != 0) {
      dims.emplace_back(strides[i], sizes[i]);
    }
  }
  std::sort(dims.begin(), dims.end(), std::greater<>());
  // Only where each dimension lies within one step of the next larger one is the greedy search complete.
  int64_t extent = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->first < extent) {
      return false;
    }
    extent = dim->first * dim->second;
  }
  return !can_reach(std::abs(offset - other.offset), dims, 0);
}

std::pair<int64_t, int64_t> Geometry::span() const {
  int64_t end = numel() == 0 ? offset : offset + 1;
  for (size_t i = 0; i < sizes.size() && end > offset; ++i) {
    end += (sizes[i] - 1) * strides[i];
  }
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  return {offset * element, end * element};
}

int64_t Geometry::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    count *= size;
  }
  return count;
}

int64_t Geometry::nbytes() const {
  return numel() * static_cast<int64_t>(c10::elementSize(dtype));
}

bool Geometry::covers(int64_t storage_nbytes) const {
  if (offset != 0 || nbytes() != storage_nbytes) {
    return false;
  }
  // Sorted by stride, a dense layout has each stride equal to the extent of the dimensions inside it.
  c10::SmallVector<std::pair<int64_t, int64_t>, 5> dims;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) {
      dims.emplace_back(strides[i], sizes[i]);
    }
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) {
      return false;
    }
    expected *= size;
  }
  return true;
}

std::string Geometry::text() const {
  PlainStream out;
  out << c10::toString(dtype) << '[';
  for (size_t i = 0; i < sizes.size(); ++i) {
    out << (i == 0 ? "" : ", ") << sizes[i];
  }
  out << ']';
  return out.str();
}

bool Geometry::operator==(const Geometry& other) const {
  return sizes == other.sizes && strides == other.strides && offset == other.offset && dtype == other.dtype &&
         conj == other.conj && neg == other.neg;
}

bool is_plain(const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  // Sparse, quantized and nested tensors are subclasses of TensorImpl. One whose ops Python takes (__torch_dispatch__)
  // is not, and its storage may have a size and no bytes.
  return typeid(*impl) == typeid(c10::TensorImpl) && impl->device().is_cpu() && impl->layout() == c10::kStrided &&
         impl->has_storage() && !impl->is_inference() && !impl->key_set().has(c10::DispatchKey::ZeroTensor) &&
         !impl->key_set().has(c10::DispatchKey::Python);
}

at::Tensor detached_alias(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_tensor_metadata_change=*/true));
}

c10::Storage new_storage(int64_t nbytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), nbytes, c10::GetCPUAllocator(), /*resizable=*/true);
}

c10::Storage copy_storage(const c10::Storage& source) {
  c10::Storage copy = new_storage(static_cast<int64_t>(source.nbytes()));
  if (source.nbytes() > 0) {
    std::memcpy(compat::data_of(copy), compat::data_of(source), source.nbytes());
  }
  return copy;
}

}  // namespace encore::tape
