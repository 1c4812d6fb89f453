// Every workload at every budget: within the bytes and bit-identical, or refused with a budget that works.
#include <torch/optim/adam.h>

#include "support/oracle.h"
#include "support/torch_pch.h"

#include "workloads/workload.h"

namespace encore::test {
namespace {

using workloads::Workload;

/// What one step leaves behind.
struct Outcome {
  std::vector<at::Tensor> tensors;  // loss, gradients, parameters, buffers
  int64_t resting_bytes = 0;
  int64_t peak_bytes = 0;
};

class Trainer {
 public:
  explicit Trainer(const std::string& name)
      : workload_(workloads::make_workload(name, workloads::Size::kSmall, 1)),
        adam_(workload_.parameters, torch::optim::AdamOptions(1e-3)) {}

  Outcome plain(int64_t step) {
    return measured(step, [] { return 0; });
  }
  Outcome within(MemoryBudget& budget, int64_t step) {
    return measured(step, [&] { return budget.step(); });
  }

 private:
  template <class Begin>
  Outcome measured(int64_t step, const Begin& begin) {
    Outcome outcome;
    const MemoryScope memory;
    {
      [[maybe_unused]] const auto scope = begin();
      adam_.zero_grad();
      const at::Tensor loss = workload_.loss(step);
      loss.backward();
      adam_.step();
      outcome.tensors.push_back(loss.detach());
    }
    outcome.resting_bytes = memory.start_bytes();
    outcome.peak_bytes = memory.peak_bytes();
    for (const at::Tensor& parameter : workload_.parameters) {
      outcome.tensors.push_back(parameter.grad().clone());
      outcome.tensors.push_back(parameter.detach().clone());
    }
    for (const at::Tensor& buffer : workload_.buffers) {
      outcome.tensors.push_back(buffer.clone());
    }
    return outcome;
  }

  Workload workload_;
  torch::optim::Adam adam_;
};

bool same(const Outcome& a, const Outcome& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), same_bits);
}

class EveryWorkload : public testing::TestWithParam<std::string> {};

constexpr int64_t kSteps = 6;

std::vector<Outcome> run_plainly(const std::string& name, int64_t steps) {
  Trainer trainer(name);
  std::vector<Outcome> outcomes;
  for (int64_t step = 0; step < steps; ++step) {
    outcomes.push_back(trainer.plain(step));
  }
  return outcomes;
}

TEST_P(EveryWorkload, KeepsTheBudgetToTheByteOrRefusesAndIsBitIdentical) {
  const std::vector<Outcome> plain = run_plainly(GetParam(), kSteps);
  int64_t growth = 0;
  for (const Outcome& outcome : plain) {
    growth = std::max(growth, outcome.peak_bytes - outcome.resting_bytes);
  }
  int64_t within = 0;
  for (const double part : {1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2}) {
    Trainer trainer(GetParam());
    // What rests grows by the optimizer's state in the first step.
    trainer.plain(0);
    const int64_t resting = live_tensor_bytes();
    MemoryBudget budget(resting + static_cast<int64_t>(part * static_cast<double>(growth)));
    for (int64_t step = 1; step < kSteps; ++step) {
      try {
        const Outcome outcome = trainer.within(budget, step);
        EXPECT_LE(outcome.peak_bytes, budget.limit_bytes()) << part << " step " << step;
        EXPECT_TRUE(same(outcome, plain[static_cast<size_t>(step)])) << part << " step " << step;
        ++within;
      } catch (const BudgetError& error) {
        EXPECT_GT(error.figures().needed_bytes, budget.limit_bytes());
        EXPECT_EQ(error.figures().limit_bytes, budget.limit_bytes());
        // A backward that threw leaves tasks in LibTorch's own queue, which the next one clears.
        trainer.plain(step);
        EXPECT_EQ(live_tensor_bytes(), resting) << "nothing leaks";
        break;
      }
    }
  }
  EXPECT_GE(within, kSteps - 1);
}

TEST_P(EveryWorkload, TheNamedLeastBudgetWorks) {
  const std::vector<Outcome> plain = run_plainly(GetParam(), kSteps);
  Trainer trainer(GetParam());
  trainer.plain(0);
  MemoryBudget budget(int64_t{1} << 40);
  int64_t step = 1;
  for (; step < 3; ++step) {
    EXPECT_TRUE(same(trainer.within(budget, step), plain[static_cast<size_t>(step)]));
  }
  budget.set_limit(live_tensor_bytes() + 1);
  int64_t least = -1;
  try {
    trainer.within(budget, step);
    ADD_FAILURE() << "a step without any memory";
  } catch (const BudgetError& error) {
    least = error.figures().least_bytes;
    EXPECT_FALSE(error.figures().op.empty());
  }
  ASSERT_GT(least, 0);
  budget.set_limit(least);
  for (; step < kSteps; ++step) {
    if (GetParam() == "tree") {
      break;  // the next tree is another step, of which nothing is known yet
    }
    const Outcome outcome = trainer.within(budget, step);
    EXPECT_LE(outcome.peak_bytes, least);
    EXPECT_TRUE(same(outcome, plain[static_cast<size_t>(step)]));
  }
}

TEST_P(EveryWorkload, MoreBudgetIsNeverSlowerByPlan) {
  if (GetParam() == "tree") {
    GTEST_SKIP() << "no two of its steps are alike";
  }
  Trainer trainer(GetParam());
  trainer.plain(0);
  MemoryBudget budget(int64_t{1} << 40);
  int64_t step = 1;
  for (; step < 9; ++step) {  // until times are settled
    trainer.within(budget, step);
  }
  const int64_t resting = budget.report().resting_bytes;
  const int64_t growth = budget.report().plain_peak_bytes - resting;
  double last = std::numeric_limits<double>::infinity();
  for (int64_t percent = 20; percent <= 100; percent += 10) {
    budget.set_limit(resting + growth * percent / 100);
    try {
      trainer.within(budget, step++);
    } catch (const BudgetError&) {
      continue;
    }
    const StepReport report = budget.report();
    ASSERT_EQ(report.mode, StepMode::kPlanned) << percent << " " << report.note;
    EXPECT_LE(report.predicted_seconds, last);
    EXPECT_NEAR(static_cast<double>(report.predicted_peak_bytes), static_cast<double>(report.peak_bytes),
                0.02 * static_cast<double>(report.peak_bytes));
    last = report.predicted_seconds;
  }
  EXPECT_LT(last, std::numeric_limits<double>::infinity());
}

INSTANTIATE_TEST_SUITE_P(Workloads, EveryWorkload, testing::ValuesIn(workloads::workload_names()),
                         [](const auto& workload) { return workload.param; });

TEST(Training, TwoHundredStepsUnderHalfTheMemoryAreBitIdentical) {
  constexpr int64_t kMany = 200;
  Trainer plain("gpt");
  Trainer budgeted("gpt");
  Outcome expected = plain.plain(0);
  budgeted.plain(0);
  expected = plain.plain(1);
  const int64_t growth = expected.peak_bytes - expected.resting_bytes;
  const int64_t before = live_tensor_bytes();
  MemoryBudget budget(before + growth / 2);
  int64_t planned = 0;
  for (int64_t step = 1; step < kMany; ++step) {
    if (step > 1) {
      expected = plain.plain(step);
    }
    // Live bytes include the other trainer's and `expected`, which do not change from here on.
    const Outcome outcome = budgeted.within(budget, step);
    ASSERT_TRUE(same(outcome, expected)) << "step " << step;
    ASSERT_LE(outcome.peak_bytes, budget.limit_bytes());
    planned += budget.report().mode == StepMode::kPlanned ? 1 : 0;
  }
  EXPECT_GE(planned, kMany - 5);
}

}  // namespace
}  // namespace encore::test
