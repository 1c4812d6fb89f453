// Integers in as many bytes as their range needs: the indices of a max-pool are 64-bit numbers below the image's size.
#include <limits>
#include <type_traits>

#include <ATen/Parallel.h>

#include "store/form.h"
#include "tape/compat.h"

namespace encore::store {
namespace {

constexpr int64_t kElementsAThread = 1 << 15;

/// Calls `visit` with a zero of the unsigned type of that many bytes.
template <class Visit>
void with_width(size_t bytes, const Visit& visit) {
  switch (bytes) {
    case sizeof(uint8_t):
      return visit(uint8_t{0});
    case sizeof(uint16_t):
      return visit(uint16_t{0});
    default:
      return visit(uint32_t{0});
  }
}

/// Calls `visit` with a zero of the type; false if it is none that could be narrowed.
template <class Visit>
bool with_integer(at::ScalarType type, const Visit& visit) {
  switch (type) {
    case at::kShort:
      visit(int16_t{0});
      return true;
    case at::kInt:
      visit(int32_t{0});
      return true;
    case at::kLong:
      visit(int64_t{0});
      return true;
    default:
      return false;
  }
}

/// How many bytes a number up to `range` takes.
size_t width_of(uint64_t range) {
  if (range <= std::numeric_limits<uint8_t>::max()) {
    return sizeof(uint8_t);
  }
  if (range <= std::numeric_limits<uint16_t>::max()) {
    return sizeof(uint16_t);
  }
  return range <= std::numeric_limits<uint32_t>::max() ? sizeof(uint32_t) : sizeof(uint64_t);
}

class Narrow final : public Resting {
 public:
  /// `least` of all elements was taken off each.
  Narrow(c10::Storage numbers, at::ScalarType type, int64_t size, size_t width, int64_t least)
      : numbers_(std::move(numbers)), type_(type), size_(size), width_(width), least_(least) {}

  std::string_view form() const override { return "narrow"; }
  int64_t nbytes() const override { return static_cast<int64_t>(numbers_.nbytes()); }
  c10::Storage whole() const override {
    c10::Storage storage = tape::new_storage(size_ * static_cast<int64_t>(c10::elementSize(type_)));
    with_integer(type_, [&](auto element) {
      using Element = decltype(element);
      auto* to = static_cast<Element*>(compat::data_of(storage));
      with_width(width_, [&](auto number) {
        using Number = decltype(number);
        const auto* from = static_cast<const Number*>(compat::data_of(numbers_));
        at::parallel_for(0, size_, kElementsAThread, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            to[i] = static_cast<Element>(least_ + static_cast<int64_t>(from[i]));
          }
        });
      });
    });
    return storage;
  }

 private:
  c10::Storage numbers_;
  at::ScalarType type_;
  int64_t size_;
  size_t width_;
  int64_t least_;
};

/// The least and the largest of the elements.
template <class Element>
std::pair<int64_t, int64_t> range_of(const Element* elements, int64_t size) {
  std::mutex mutex;
  Element least = elements[0];
  Element largest = elements[0];
  at::parallel_for(0, size, kElementsAThread, [&](int64_t begin, int64_t end) {
    Element low = elements[begin];
    Element high = elements[begin];
    for (int64_t i = begin; i < end; ++i) {
      low = std::min(low, elements[i]);
      high = std::max(high, elements[i]);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    least = std::min(least, low);
    largest = std::max(largest, high);
  });
  return {least, largest};
}

class NarrowForm final : public Form {
 public:
  std::string_view name() const override { return "narrow"; }
  bool may_serve(const Candidate& value) const override {
    return with_integer(value.dtype, [](auto) {});
  }
  std::shared_ptr<const Resting> rest(const at::Tensor& tensor) const override {
    std::shared_ptr<const Resting> resting;
    const at::ScalarType type = tensor.scalar_type();
    const int64_t size = tensor.numel();
    with_integer(type, [&](auto element) {
      using Element = decltype(element);
      const auto* from = static_cast<const Element*>(compat::data_of(tensor.storage()));
      const auto [least, largest] = range_of(from, size);
      const uint64_t range = static_cast<uint64_t>(largest) - static_cast<uint64_t>(least);  // may pass int64_t
      const size_t width = width_of(range);
      if (width >= sizeof(Element)) {
        return;
      }
      c10::Storage numbers = tape::new_storage(size * static_cast<int64_t>(width));
      with_width(width, [&, low = least](auto number) {
        using Number = decltype(number);
        auto* to = static_cast<Number*>(compat::data_of(numbers));
        at::parallel_for(0, size, kElementsAThread, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            to[i] = static_cast<Number>(static_cast<int64_t>(from[i]) - low);
          }
        });
      });
      resting = std::make_shared<Narrow>(std::move(numbers), type, size, width, least);
    });
    return resting;
  }
};

}  // namespace

const Form& narrow();
const Form& narrow() {
  static const NarrowForm form;
  return form;
}

}  // namespace encore::store
