// A mask: elements of two kinds, zero and one other, as one bit each. Eight of them are packed into a byte.
#include <array>

#include <ATen/Parallel.h>

#include "store/form.h"
#include "tape/compat.h"

namespace encore::store {
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

/// Eight bytes, each 0 or 1, as the bits of one.
uint8_t gather(const uint8_t* ones) {
  uint64_t word = 0;
  std::memcpy(&word, ones, sizeof(word));
  return static_cast<uint8_t>((word * 0x0102040810204080U) >> 56U);  // byte k times 2^(56 - 7k) ends in bit 56 + k
}

/// False if an element is neither zero nor `one`. Block by block, so that compilers make vector instructions of it.
template <class Element>
bool pack(const Element* elements, int64_t size, Element one, uint8_t* bits) {
  constexpr int64_t kBlock = 64;  // bytes of bits
  std::atomic<bool> fits{true};
  at::parallel_for(0, bytes_for(size), kGrain, [&](int64_t begin, int64_t end) {
    Element others = 0;
    for (int64_t byte = begin; byte < end && others == 0; byte += kBlock) {
      std::array<uint8_t, kBlock * kInByte> ones{};
      const Element* from = elements + byte * kInByte;
      const int64_t bytes = std::min(kBlock, end - byte);
      const int64_t count = std::min(bytes * kInByte, size - byte * kInByte);
      for (int64_t i = 0; i < count; ++i) {
        ones[static_cast<size_t>(i)] = from[i] == one ? 1 : 0;
        others |= from[i] == one ? Element{0} : from[i];
      }
      for (int64_t i = 0; i < bytes; ++i) {
        bits[byte + i] = gather(ones.data() + i * kInByte);
      }
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
  for (size_t each = 0; each < table.size(); ++each) {
    std::array<uint8_t, kInByte> ones{};
    for (size_t i = 0; i < ones.size(); ++i) {
      ones[i] = static_cast<uint8_t>((each >> i) & 1U);
    }
    std::array<Element, kInByte>& elements = table[gather(ones.data())];
    std::transform(ones.begin(), ones.end(), elements.begin(),
                   [&](uint8_t bit) { return bit != 0 ? one : Element{0}; });
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

class Bits final : public Resting {
 public:
  Bits(c10::Storage bits, int64_t size, size_t element_bytes, uint64_t one)
      : bits_(std::move(bits)), size_(size), element_bytes_(element_bytes), one_(one) {}

  std::string_view form() const override { return "bits"; }
  int64_t nbytes() const override { return static_cast<int64_t>(bits_.nbytes()); }
  c10::Storage whole() const override {
    c10::Storage storage = tape::new_storage(size_ * static_cast<int64_t>(element_bytes_));
    with_element_type(element_bytes_, [&](auto zero) {
      using Element = decltype(zero);
      unpack(static_cast<const uint8_t*>(compat::data_of(bits_)), size_, static_cast<Element>(one_),
             static_cast<Element*>(compat::data_of(storage)));
      return true;
    });
    return storage;
  }

 private:
  c10::Storage bits_;
  int64_t size_;
  size_t element_bytes_;
  uint64_t one_;  // the bits of the elements that are not zero
};

class BitsForm final : public Form {
 public:
  std::string_view name() const override { return "bits"; }
  /// What dropout draws, and truth values. Elements are compared by their bits.
  bool may_serve(const Candidate& value) const override { return value.random || value.dtype == at::kBool; }
  std::shared_ptr<const Resting> rest(const at::Tensor& tensor) const override {
    const int64_t size = tensor.numel();
    const size_t element_bytes = tensor.element_size();
    if (bytes_for(size) >= static_cast<int64_t>(tensor.storage().nbytes())) {
      return nullptr;
    }
    const void* data = compat::data_of(tensor.storage());
    c10::Storage bits;
    uint64_t one = 0;
    const bool packed = with_element_type(element_bytes, [&](auto zero) {
      using Element = decltype(zero);
      const auto* elements = static_cast<const Element*>(data);
      one = first_not_zero(elements, size);
      bits = tape::new_storage(bytes_for(size));
      return pack(elements, size, static_cast<Element>(one), static_cast<uint8_t*>(compat::data_of(bits)));
    });
    return packed ? std::make_shared<Bits>(std::move(bits), size, element_bytes, one) : nullptr;
  }
};

}  // namespace

const Form& bits();
const Form& bits() {
  static const BitsForm form;
  return form;
}

}  // namespace encore::store
