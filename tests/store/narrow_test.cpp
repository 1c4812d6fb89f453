// Integers in as many bytes as their range needs.
#include "store/conformance.h"

namespace encore::store {
namespace {

std::vector<Example::Served> small_ranges() {
  torch::manual_seed(2);
  const auto numbers = [](int64_t low, int64_t high, torch::ScalarType dtype) {
    return torch::randint(low, high, {50, 40}, dtype);
  };
  std::vector<Example::Served> served = {
      {"below 64", numbers(0, 64, torch::kLong), 2000},
      {"around zero", numbers(-100, 100, torch::kInt), 2000},
      {"far from zero", numbers(1'000'000'000'000, 1'000'000'000'200, torch::kLong), 2000},
      {"two bytes", numbers(-20'000, 20'000, torch::kLong), 4000},
      {"four bytes", numbers(-2'000'000'000, 2'000'000'000, torch::kLong), 8000},
      {"short", numbers(-10, 10, torch::kShort), 2000},
      {"large", torch::randint(0, 200, {1000, 700}, torch::kLong), 700'000},
  };
  // The least number that there is.
  served.push_back(
      {"at the end of the range", torch::full({10, 10}, std::numeric_limits<int64_t>::min(), torch::kLong), 100});
  return served;
}

std::vector<torch::Tensor> wide_ranges() {
  torch::Tensor both_ends = torch::zeros({10, 10}, torch::kLong);
  both_ends[0][0] = std::numeric_limits<int64_t>::min();
  both_ends[0][1] = std::numeric_limits<int64_t>::max();
  return {both_ends, torch::rand({10, 10}), torch::ones({10, 10}, torch::kByte),
          torch::arange(-30'000, 30'000, torch::kShort).reshape({600, 100})};
}

INSTANTIATE_TEST_SUITE_P(Narrow, FormConformance, testing::Values(Example{"narrow", &small_ranges, &wide_ranges}));

}  // namespace
}  // namespace encore::store
