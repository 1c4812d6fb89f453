// Masks as bits.
#include "store/conformance.h"

namespace encore::store {
namespace {

std::vector<Example::Served> masks() {
  torch::manual_seed(1);
  std::vector<Example::Served> served;
  for (const auto dtype : {torch::kBool, torch::kByte, torch::kHalf, torch::kFloat, torch::kDouble, torch::kLong}) {
    served.push_back({c10::toString(dtype), torch::rand({40, 100}).lt(0.9).to(dtype), 500});
  }
  served.push_back({"dropout's", torch::empty({64, 64}).bernoulli_(0.9).div_(0.9), 512});
  served.push_back({"large", torch::rand({1024, 1024}).lt(0.5).to(torch::kFloat), (1 << 20) / 8});
  served.push_back({"not a multiple of eight", torch::rand({7, 11}).lt(0.5), 10});
  return served;
}

std::vector<torch::Tensor> no_masks() {
  return {torch::rand({100, 100}), torch::arange(0, 100).reshape({10, 10}),
          torch::ones({10, 10}, torch::kComplexDouble)};
}

INSTANTIATE_TEST_SUITE_P(Bits, FormConformance, testing::Values(Example{"bits", &masks, &no_masks}));

}  // namespace
}  // namespace encore::store
