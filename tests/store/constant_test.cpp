// Equal elements as one of them.
#include "store/conformance.h"

namespace encore::store {
namespace {

std::vector<Example::Served> constants() {
  std::vector<Example::Served> served;
  for (const auto dtype : {torch::kBool, torch::kHalf, torch::kInt, torch::kDouble, torch::kComplexDouble}) {
    const torch::Tensor ones = torch::ones({30, 50}, dtype);
    served.push_back({c10::toString(dtype), ones, static_cast<int64_t>(ones.element_size())});
  }
  served.push_back({"NaN", torch::full({3, 5}, std::numeric_limits<float>::quiet_NaN()), 4});
  served.push_back({"negative zeros", torch::full({3, 5}, -0.0F), 4});
  served.push_back({"large", torch::zeros({1024, 1024}), 4});
  return served;
}

std::vector<torch::Tensor> no_constants() {
  torch::Tensor all_but_the_last = torch::ones({20, 20});
  all_but_the_last[19][19] = 2;
  return {all_but_the_last, torch::rand({10, 10}), torch::ones({1}),
          torch::cat({torch::full({8}, -0.0F), torch::full({8}, 0.0F)})};
}

INSTANTIATE_TEST_SUITE_P(Constant, FormConformance, testing::Values(Example{"constant", &constants, &no_constants}));

}  // namespace
}  // namespace encore::store
