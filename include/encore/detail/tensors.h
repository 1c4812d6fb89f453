// Finds the tensors inside arguments and results: tensors, optionals, containers, pairs, tuples, and structs that show
// their fields. Internal; the struct hook `encore_fields` is the only name here that users may meet.
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <ATen/core/Tensor.h>

namespace encore::detail {

template <class T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

template <class T, class = void>
struct IsTuple : std::false_type {};
template <class T>
struct IsTuple<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

template <class T, class = void>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<T, std::void_t<decltype(std::declval<T&>().has_value()), decltype(*std::declval<T&>())>>
    : std::true_type {};

template <class T, class = void>
struct IsContainer : std::false_type {};
template <class T>
struct IsContainer<
    T, std::void_t<decltype(std::declval<T&>().begin()), decltype(std::declval<T&>().end()), typename T::value_type>>
    : std::bool_constant<!std::is_same_v<typename T::value_type, T>> {};

/// Strings and containers of numbers: known to hold no tensors.
template <class T, class = void>
struct HoldsNumbers : std::false_type {};
template <class T>
struct HoldsNumbers<T, std::enable_if_t<IsContainer<T>::value>> : std::is_arithmetic<typename T::value_type> {};

/// A struct is looked into if `auto encore_fields(S& s) { return std::tie(s.a, s.b); }` stands beside it.
template <class T, class = void>
struct HasFields : std::false_type {};
template <class T>
struct HasFields<T, std::void_t<decltype(encore_fields(std::declval<T&>()))>> : std::true_type {};

/// Calls visit(tensor) for each tensor inside `value`, in order, and unknown() for each object that can't be looked
/// into.
template <class T, class Visit, class Unknown>
void for_each_tensor(T& value, const Visit& visit, const Unknown& unknown) {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_base_of_v<at::Tensor, V>) {
    visit(value);
  } else if constexpr (HasFields<T>::value) {
    std::apply([&](auto&... field) { (for_each_tensor(field, visit, unknown), ...); }, encore_fields(value));
  } else if constexpr (IsTuple<V>::value) {
    std::apply([&](auto&... element) { (for_each_tensor(element, visit, unknown), ...); }, value);
  } else if constexpr (IsOptional<V>::value) {
    if (value.has_value()) {
      for_each_tensor(*value, visit, unknown);
    }
  } else if constexpr (HoldsNumbers<V>::value) {
    return;
  } else if constexpr (IsContainer<V>::value) {
    for (auto&& element : value) {
      for_each_tensor(element, visit, unknown);
    }
  } else if constexpr (std::is_class_v<V>) {
    unknown();
  }
}

/// What is known of a set of values.
struct Seen {
  int64_t tensors = 0;
  int64_t differentiable = 0;  // of a floating-point or complex type
  int64_t undefined = 0;
  int64_t unknown = 0;  // objects that may hold tensors

  template <class T>
  void look(const T& value) {
    for_each_tensor(
        value,
        [this](const at::Tensor& tensor) {
          ++tensors;
          undefined += tensor.defined() ? 0 : 1;
          differentiable += tensor.defined() && (tensor.is_floating_point() || tensor.is_complex()) ? 1 : 0;
        },
        [this] { ++unknown; });
  }
};

}  // namespace encore::detail
