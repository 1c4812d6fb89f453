// Which ops a module without parameters runs, by its class.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace encore::budget {

constexpr size_t kLongestMatch = 4;

/// How many of the first ops of `names` ("aten::relu") are what one call of a module of this class
/// ("torch::nn::ReLUImpl") runs; 0 if they are not.
size_t ops_of_kind(std::string_view kind, const std::vector<std::string_view>& names);

}  // namespace encore::budget
