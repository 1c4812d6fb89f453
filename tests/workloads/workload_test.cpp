// Every workload at its small size: the same seed gives the same bits, plainly and with every saved value dropped.
#include "workloads/workload.h"

#include <cmath>
#include <stdexcept>

#include "support/oracle.h"
#include "workloads/tree.h"

namespace encore::test {
namespace {

using workloads::make_workload;
using workloads::Size;
using workloads::Workload;

constexpr uint64_t kSeed = 3;
constexpr int64_t kSteps = 3;

enum class Run { kPlain, kBackwardAfterScope, kBackwardInScope };

/// Losses, gradients, buffers and parameters of a few steps of Adam.
Outcome train(const std::string& name, Run run) {
  const Workload workload = make_workload(name, Size::kSmall, kSeed);
  torch::optim::Adam adam(workload.parameters, torch::optim::AdamOptions(1e-3));
  Outcome outcome;
  const auto add_all = [&](const std::string& kind, int64_t step, const Tensors& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      outcome.add("step " + std::to_string(step) + ": " + kind + " " + std::to_string(i), tensors[i]);
    }
  };
  for (int64_t step = 0; step < kSteps; ++step) {
    adam.zero_grad();
    std::optional<Scope> scope;
    if (run != Run::kPlain) {
      scope.emplace(drop_all());
    }
    const at::Tensor loss = workload.loss(step);
    if (run == Run::kBackwardAfterScope) {
      scope->end();
    }
    loss.backward();
    if (scope) {
      EXPECT_GT(scope->stats().values_dropped, 0);
      EXPECT_GT(scope->stats().ops_replayed, 0);
    }
    scope.reset();
    EXPECT_TRUE(std::isfinite(loss.item<double>())) << "step " << step;
    add_all("loss", step, {loss});
    Tensors gradients;
    for (const at::Tensor& parameter : workload.parameters) {
      EXPECT_TRUE(parameter.grad().defined());
      gradients.push_back(parameter.grad());
    }
    add_all("gradient", step, gradients);
    add_all("buffer", step, workload.buffers);
    adam.step();
    add_all("parameter", step, workload.parameters);
  }
  outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
  return outcome;
}

class EveryWorkload : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryWorkload, TwoOfOneSeedTrainAlike) {
  EXPECT_EQ(difference(train(GetParam(), Run::kPlain), train(GetParam(), Run::kPlain)), "");
}

TEST_P(EveryWorkload, AnotherSeedOrStepGivesAnotherLoss) {
  const Workload workload = make_workload(GetParam(), Size::kSmall, kSeed);
  const Workload other = make_workload(GetParam(), Size::kSmall, kSeed + 1);
  const at::Tensor loss = workload.loss(0);
  EXPECT_FALSE(same_bits(loss, other.loss(0)));
  EXPECT_FALSE(same_bits(loss, workload.loss(1)));
}

TEST_P(EveryWorkload, DroppingEverythingChangesNoBit) {
  const Outcome plain = train(GetParam(), Run::kPlain);
  const int64_t live = live_tensor_bytes();
  EXPECT_EQ(difference(plain, train(GetParam(), Run::kBackwardAfterScope)), "");
  EXPECT_EQ(difference(plain, train(GetParam(), Run::kBackwardInScope)), "");
  EXPECT_EQ(live_tensor_bytes(), live) << "something stays alive after the steps";
}

INSTANTIATE_TEST_SUITE_P(Workloads, EveryWorkload, ::testing::ValuesIn(workloads::workload_names()),
                         [](const ::testing::TestParamInfo<std::string>& test) { return test.param; });

/// The tape of the forward of one step, as text.
std::string tape_of(const Workload& workload, int64_t step) {
  Scope scope(keep_all());
  workload.loss(step);
  return scope.dump();
}

TEST(TreeWorkload, EveryStepHasAnotherTree) {
  const Workload tree = make_workload("tree", Size::kSmall, kSeed);
  EXPECT_EQ(tape_of(tree, 0), tape_of(tree, 0));
  EXPECT_NE(tape_of(tree, 0), tape_of(tree, 1));
  EXPECT_NE(tape_of(tree, 0), tape_of(tree, 4)) << "steps of the same batch";
  const Workload lstm = make_workload("lstm", Size::kSmall, kSeed);
  EXPECT_EQ(tape_of(lstm, 0), tape_of(lstm, 1)) << "the text tells more than the shape";
}

TEST(TreeWorkload, ATreeIsMadeFromItsSeed) {
  const workloads::TreeConfig config;
  const workloads::Tree tree = workloads::make_tree(config, 1);
  EXPECT_EQ(to_string(tree), to_string(workloads::make_tree(config, 1)));
  EXPECT_NE(to_string(tree), to_string(workloads::make_tree(config, 2)));
  EXPECT_GE(count_leaves(tree), config.leaves / 2);
  EXPECT_LE(count_leaves(tree), config.leaves);
}

TEST(MakeWorkload, AnUnknownNameIsRefused) {
  EXPECT_NE(message_of<std::invalid_argument>([] { make_workload("vgg", Size::kSmall, kSeed); }).find("vgg"),
            std::string::npos);
}

}  // namespace
}  // namespace encore::test
