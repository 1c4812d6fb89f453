// Packing eight elements into a byte, and back.
#include "tape/packed_mask.h"

#include <array>

#include <ATen/Parallel.h>

#include "tape/compat.h"

namespace encore::tape {
namespace {

constexpr int64_t kInByte = 8;
constexpr int64_t kGrain = 1 << 14;  // bytes of bits that are worth a thread

int64_t bytes_for(int64_t elements) {
  return (elements + kInByte - 1) / kInByte;
}

/// Calls `visit` with a zero of the unsigned type of that many bytes; false if there is none.
template <class Visit>
bool with_element_type(size_t bytes, const Visit& visit) {
  switch (bytes) {
    case sizeof(uint8_t):
      return visit(uint8_t{0});
    case sizeof(uint16_t):
      return visit(uint16_t{0});
    case sizeof(uint32_t):
      return visit(uint32_t{0});
    case sizeof(uint64_t):
      return visit(uint64_t{0});
    default:
      return false;
  }
}

template <class Element>
Element first_not_zero(const Element* elements, int64_t size) {
  const Element* found = std::find_if(elements, elements + size, [](Element element) { return element != 0; });
  return found == elements + size ? Element{1} : *found;
}

/// False if an element is neither zero nor `one`.
template <class Element>
bool pack(const Element* elements, int64_t size, Element one, uint8_t* bits) {
  std::atomic<bool> fits{true};
  at::parallel_for(0, bytes_for(size), kGrain, [&](int64_t begin, int64_t end) {
    Element others = 0;
    for (int64_t byte = begin; byte < end && others == 0; ++byte) {
      const Element* from = elements + byte * kInByte;
      const int64_t count = std::min(kInByte, size - byte * kInByte);
      unsigned packed = 0;
      for (int64_t i = 0; i < count; ++i) {
        const bool is_one = from[i] == one;
        others |= is_one ? Element{0} : from[i];
        packed |= static_cast<unsigned>(is_one) << static_cast<unsigned>(i);
      }
      bits[byte] = static_cast<uint8_t>(packed);
    }
    if (others != 0) {
      fits = false;
    }
  });
  return fits;
}

/// The eight elements that each byte stands for.
template <class Element>
using Table = std::array<std::array<Element, kInByte>, 256>;

template <class Element>
Table<Element> table_of(Element one) {
  Table<Element> table{};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    for (size_t i = 0; i < kInByte; ++i) {
      table[byte][i] = ((byte >> i) & 1U) != 0 ? one : Element{0};
    }
  }
  return table;
}

template <class Element>
void unpack(const uint8_t* bits, int64_t size, Element one, Element* elements) {
  const Table<Element> table = table_of(one);
  at::parallel_for(0, bytes_for(size), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t byte = begin; byte < end; ++byte) {
      const auto count = static_cast<size_t>(std::min(kInByte, size - byte * kInByte));
      std::memcpy(elements + byte * kInByte, table[bits[byte]].data(), count * sizeof(Element));
    }
  });
}

}  // namespace

std::shared_ptr<const PackedMask> PackedMask::of(const at::Tensor& tensor) {
  if (!is_plain(tensor) || !Geometry::of(tensor).covers(static_cast<int64_t>(tensor.storage().nbytes()))) {
    return nullptr;
  }
  const int64_t size = tensor.numel();
  const size_t element_bytes = tensor.element_size();
  const void* data = compat::data_of(tensor.storage());
  c10::Storage bits;
  uint64_t one = 0;
  const bool packed = with_element_type(element_bytes, [&](auto zero) {
    using Element = decltype(zero);
    const auto* elements = static_cast<const Element*>(data);
    one = first_not_zero(elements, size);
    bits = new_storage(bytes_for(size));
    return pack(elements, size, static_cast<Element>(one), static_cast<uint8_t*>(compat::data_of(bits)));
  });
  if (!packed) {
    return nullptr;
  }
  return std::shared_ptr<const PackedMask>(new PackedMask(std::move(bits), size, element_bytes, one));
}

c10::Storage PackedMask::unpack() const {
  c10::Storage storage = new_storage(size_ * static_cast<int64_t>(element_bytes_));
  with_element_type(element_bytes_, [&](auto zero) {
    using Element = decltype(zero);
    tape::unpack(static_cast<const uint8_t*>(compat::data_of(bits_)), size_, static_cast<Element>(one_),
                 static_cast<Element*>(compat::data_of(storage)));
    return true;
  });
  return storage;
}

}  // namespace encore::tape
