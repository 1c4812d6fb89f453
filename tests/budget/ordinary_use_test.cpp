// Budgets as people use them: made after the model, in the middle of a process, with what they look at afterwards.
#include <atomic>
#include <sstream>
#include <thread>

#include <c10/core/CPUAllocator.h>
#include <torch/script.h>

#include "budget/net.h"
#include "support/oracle.h"
#include "tape/compat.h"

namespace encore::test {
namespace {

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

torch::nn::Sequential two_layers(int64_t width) {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(width, width), torch::nn::Linear(width, width));
}

TEST(OrdinaryUse, WhatWasMadeBeforeTheBudgetIsInItsCount) {
  torch::nn::Sequential model = two_layers(200);
  const at::Tensor input = torch::randn({16, 200});
  torch::optim::Adam optimizer(model->parameters());
  const int64_t made = bytes_of(model->parameters()) + bytes_of({input});

  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    optimizer.zero_grad();
    model->forward(input).sum().backward();
    optimizer.step();
  }
  EXPECT_GE(budget.report().resting_bytes, made);
  EXPECT_GE(budget.report().peak_bytes, made + 3 * bytes_of(model->parameters())) << "gradients and Adam's two";
  MemoryBudget second(made - 1);
  EXPECT_THROW((void)second.step(), BudgetError) << "what rests does not fit";
}

TEST(OrdinaryUse, ALoadedModelAndTensorsOfOtherThreadsAreInTheCount) {
  const int64_t before = live_tensor_bytes();
  torch::nn::Sequential model = two_layers(100);
  std::stringstream file;
  torch::save(model, file);
  torch::nn::Sequential loaded = two_layers(100);
  torch::load(loaded, file);
  at::Tensor theirs;
  std::thread([&] { theirs = torch::empty({1000}, torch::kByte); }).join();
  EXPECT_GE(live_tensor_bytes(), before + bytes_of(model->parameters()) + bytes_of(loaded->parameters()) + 1000);
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    loaded->forward(torch::ones({4, 100})).sum().backward();
    model = nullptr;
  }
  EXPECT_GE(budget.report().resting_bytes, before + bytes_of(loaded->parameters()) + 1000);
  loaded = nullptr;
  theirs = at::Tensor();
  EXPECT_EQ(live_tensor_bytes(), before) << "freed in a step or after it, it leaves the count";
}

TEST(OrdinaryUse, ForeignMemoryIsNamedAndNotCounted) {
  std::vector<float> buffer(10000, 1);
  const at::Tensor weight = torch::ones({10000}).requires_grad_();
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    (torch::from_blob(buffer.data(), {10000}) * weight).sum().backward();
  }
  EXPECT_EQ(budget.report().foreign_bytes, 40000);
  EXPECT_NE(budget.report().text().find("not counted"), std::string::npos);
}

/// Trains two layers with Adam: gradients and the optimizer's state are most of it.
void train(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer, const at::Tensor& input) {
  optimizer.zero_grad();
  model->forward(input).square().mean().backward();
  optimizer.step();
}

TEST(OrdinaryUse, AFractionDoesNotCountGradientsAndOptimizerTwice) {
  const at::Tensor input = torch::randn({8, 500});
  int64_t plain_peak = 0;
  {
    torch::nn::Sequential model = two_layers(500);
    torch::optim::Adam optimizer(model->parameters());
    const MemoryScope memory;
    for (int i = 0; i < 4; ++i) {
      train(model, optimizer, input);
    }
    plain_peak = memory.peak_bytes();
  }
  for (const double part : {0.9, 1.0}) {
    torch::nn::Sequential model = two_layers(500);
    torch::optim::Adam optimizer(model->parameters());
    MemoryBudget budget = MemoryBudget::fraction(part);
    for (int i = 0; i < 6; ++i) {
      // What comes after the first step, in which gradients and the optimizer's state are born, is known less well.
      const int64_t most = plain_peak + (i < 2 ? plain_peak / 100 : 0);
      try {
        const auto step = budget.step();
        train(model, optimizer, input);
      } catch (const BudgetError& error) {
        EXPECT_LT(part, 1) << error.what();
        EXPECT_LE(error.figures().least_bytes, most);
        EXPECT_NE(std::string(error.what()).find("activations are only"), std::string::npos) << error.what();
        break;
      }
      EXPECT_LE(budget.limit_bytes(), most) << "step " << i;
    }
  }
}

/// Its state is made with the parameter's sizes, so nothing tells of it beforehand.
class OwnMomentum : public torch::optim::SGD {
 public:
  using SGD::SGD;
  at::Tensor step(LossClosure /*closure*/ = nullptr) override {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : param_groups()[0].params()) {
      at::Tensor& momentum = momenta_[parameter.unsafeGetTensorImpl()];
      if (!momentum.defined()) {
        momentum = torch::zeros(parameter.sizes());
      }
      parameter.sub_(momentum.add_(parameter.grad()));
    }
    return {};
  }

 private:
  std::map<at::TensorImpl*, at::Tensor> momenta_;
};

TEST(OrdinaryUse, ARefusalInsideAnOptimizerSaysHowManyParametersWereWritten) {
  torch::nn::Sequential model = two_layers(300);
  OwnMomentum optimizer(model->parameters(), 0.1);
  const at::Tensor input = torch::randn({8, 300});
  const int64_t parameters = bytes_of(model->parameters());
  MemoryBudget budget(live_tensor_bytes() + parameters * 17 / 10);  // gradients, and a part of the momenta
  try {
    const auto step = budget.step();
    train(model, optimizer, input);
    FAIL() << "it fits";
  } catch (const BudgetError& error) {
    EXPECT_GT(error.figures().parameters_written, 0);
    EXPECT_LT(error.figures().parameters_written, 4);
    EXPECT_NE(std::string(error.what()).find("of 4 parameters were written"), std::string::npos) << error.what();
    EXPECT_GE(error.figures().least_bytes, live_tensor_bytes()) << "what the others will take is foreseen";
  }
}

using MakeOptimizer = std::unique_ptr<torch::optim::Optimizer> (*)(const std::vector<at::Tensor>& parameters);

const std::vector<std::pair<const char*, MakeOptimizer>> kOptimizers = {
    {"Adam",
     [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
       return std::make_unique<torch::optim::Adam>(parameters);
     }},
    {"AdamW",
     [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
       return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions().weight_decay(0));
     }},
    {"RMSprop",
     [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
       return std::make_unique<torch::optim::RMSprop>(parameters);
     }},
    {"SGD with momentum and decay",
     [](const std::vector<at::Tensor>& parameters) -> std::unique_ptr<torch::optim::Optimizer> {
       return std::make_unique<torch::optim::SGD>(parameters,
                                                  torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.1));
     }},
};

/// Parameters after two steps: within a budget that is raised once to what the refusal names, or without one.
std::vector<at::Tensor> train_two_steps(MakeOptimizer make, int64_t budget_bytes) {
  torch::nn::Sequential model = two_layers(300);
  const auto optimizer = make(model->parameters());
  const at::Tensor input = torch::ones({8, 300});
  if (budget_bytes > 0) {
    std::optional<MemoryBudget> budget(live_tensor_bytes() + budget_bytes);
    try {
      const auto step = budget->step();
      train(model, *optimizer, input);
      ADD_FAILURE() << "it fits";
    } catch (const BudgetError& error) {
      EXPECT_EQ(error.figures().parameters_written, 0) << error.what();
      EXPECT_NE(std::string(error.what()).find("nothing has changed"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("still to come"), std::string::npos) << error.what();
      budget.emplace(error.figures().least_bytes);
    }
    const auto step = budget->step();
    train(model, *optimizer, input);
  } else {
    train(model, *optimizer, input);
  }
  train(model, *optimizer, input);
  return model->parameters();
}

TEST(OrdinaryUse, WhatAnOptimizerWillMakeIsForeseenBeforeItWrites) {
  const int64_t parameters = bytes_of(two_layers(300)->parameters());
  for (const auto& [name, make] : kOptimizers) {
    SCOPED_TRACE(name);
    const std::vector<at::Tensor> plain = train_two_steps(make, 0);
    // Gradients, and the state of the first layer.
    const std::vector<at::Tensor> caught = train_two_steps(make, parameters * 19 / 10);
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(same_bits(plain[i], caught[i])) << i;
    }
  }
}

TEST(OrdinaryUse, AdamWHasOneParameterDecayedWhenTheOthersAreForeseen) {
  const int64_t parameters = bytes_of(two_layers(300)->parameters());
  const at::Tensor input = torch::ones({8, 300});
  int64_t budget_bytes =
      live_tensor_bytes() + parameters * 29 / 10;  // with the model, gradients, and half of the state
  for (const int64_t written : {1, 0}) {
    torch::nn::Sequential model = two_layers(300);
    torch::optim::AdamW optimizer(model->parameters());
    MemoryBudget budget(budget_bytes);
    try {
      const auto step = budget.step();
      train(model, optimizer, input);
      EXPECT_EQ(written, 0) << "it fits";
    } catch (const BudgetError& error) {
      EXPECT_EQ(written, 1) << error.what();
      EXPECT_EQ(error.figures().parameters_written, 1);
      budget_bytes = error.figures().least_bytes;
    }
  }
}

/// The peak of each of three steps with momentum, or the refusal that ends them.
std::vector<int64_t> train_with_momentum(std::optional<int64_t> budget_bytes, std::optional<BudgetError>& refusal) {
  torch::nn::Sequential model = two_layers(300);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const at::Tensor input = torch::ones({200, 300});
  std::optional<MemoryBudget> budget;
  if (budget_bytes) {
    budget.emplace(*budget_bytes);
  }
  std::vector<int64_t> peaks;
  try {
    for (int i = 0; i < 3; ++i) {
      const MemoryScope memory;
      const auto step = budget ? std::optional(budget->step()) : std::nullopt;
      train(model, optimizer, input);
      peaks.push_back(memory.peak_bytes());
    }
  } catch (const BudgetError& error) {
    refusal = error;
  }
  return peaks;
}

TEST(OrdinaryUse, AStepThatNeedsMoreThanTheFirstNamesWhatWorks) {
  std::optional<BudgetError> refusal;
  const std::vector<int64_t> plain = train_with_momentum(std::nullopt, refusal);
  ASSERT_LT(plain[0], plain[1]) << "gradients and momenta rest";
  EXPECT_EQ(train_with_momentum(plain[0], refusal).size(), 1U);
  ASSERT_TRUE(refusal);
  EXPECT_LE(refusal->figures().least_bytes, plain[1]);
  const int64_t least_bytes = refusal->figures().least_bytes;
  refusal.reset();
  EXPECT_EQ(train_with_momentum(least_bytes, refusal).size(), 3U) << refusal->what();
}

TEST(OrdinaryUse, ARefusalNamesFiguresThatDiffer) {
  const at::Tensor rests = torch::empty({1 << 20}, torch::kByte);
  MemoryBudget budget(live_tensor_bytes() - 1);
  try {
    (void)budget.step();
    FAIL();
  } catch (const BudgetError& error) {
    EXPECT_NE(std::string(error.what()).find(std::to_string(live_tensor_bytes()) + " bytes"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(std::to_string(live_tensor_bytes() - 1) + " bytes"), std::string::npos);
  }
}

TEST(OrdinaryUse, BlocksAreReusedWhileABudgetLives) {
  torch::nn::Sequential model = two_layers(300);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const at::Tensor input = torch::ones({200, 300});
  train(model, optimizer, input);
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
  {
    MemoryBudget budget("1GiB");
    {
      const auto step = budget.step();
      train(model, optimizer, input);
    }
    train(model, optimizer, input);
    EXPECT_GT(BlockReuse::held_bytes(), 0) << "between its steps, too";
  }
  EXPECT_EQ(BlockReuse::held_bytes(), 0);
}

TEST(OrdinaryUse, ARefusalNamesWhatOtherThreadsHold) {
  constexpr int64_t kBatch = 5 << 20;
  at::Tensor prefetched;
  std::thread([&] { prefetched = torch::empty({kBatch}, torch::kByte); }).join();
  const at::Tensor weight = torch::ones({1 << 18}).requires_grad_();
  MemoryBudget budget(live_tensor_bytes() + (1 << 20));
  try {
    const auto step = budget.step();
    (weight * 2).exp().sum().backward();
    FAIL() << "it fits";
  } catch (const BudgetError& error) {
    EXPECT_GE(error.figures().other_threads_bytes, kBatch);
    EXPECT_NE(std::string(error.what()).find("other threads"), std::string::npos) << error.what();
  }
}

TEST(OrdinaryUse, AReportBeforeTheFirstStepSaysWhatTheBudgetIs) {
  EXPECT_NE(MemoryBudget("50MiB").report().text().find("50.0 MiB"), std::string::npos);
  EXPECT_NE(MemoryBudget::fraction(0.5).report().text().find("learnt"), std::string::npos);
}

TEST(OrdinaryUse, TheProcessIsInTheReport) {
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    Net().loss().backward();
  }
  const StepReport report = budget.report();
  EXPECT_GT(report.process_bytes, report.peak_bytes);
  EXPECT_GE(report.process_peak_bytes, report.process_bytes);
  EXPECT_NE(budget.run_json("run").find("\"process_bytes\""), std::string::npos);
}

TEST(OrdinaryUse, ARefusalOutOfAScriptIsGivenAfterwards) {
  const auto script = torch::jit::compile(R"(
    def grow(x):
        for i in range(8):
            x = torch.cat([x, x])
        return x
  )");
  const at::Tensor x = torch::ones({1 << 16}).requires_grad_();
  MemoryBudget budget(live_tensor_bytes() + (4 << 20));
  EXPECT_FALSE(budget.refusal().has_value());
  EXPECT_ANY_THROW({
    const auto step = budget.step();
    script->run_method("grow", x).toTensor().sum().backward();
  });
  ASSERT_TRUE(budget.refusal().has_value());
  EXPECT_GT(budget.refusal()->figures().least_bytes, budget.limit_bytes());
  EXPECT_TRUE(budget.report().refused);
  {
    const auto step = budget.step();
    x.sum().backward();
  }
  EXPECT_FALSE(budget.refusal().has_value());
}

TEST(OrdinaryUse, ARefusalThatWasCaughtInsideItsStepIsReported) {
  const at::Tensor x = torch::ones({1 << 18}).requires_grad_();
  MemoryBudget budget(live_tensor_bytes() + 1000);
  {
    const auto step = budget.step();
    EXPECT_THROW(x.exp(), BudgetError);
  }
  EXPECT_TRUE(budget.report().refused);
}

/// Somebody else's allocator, which does not pass on to the one before it.
class Replacing final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t nbytes) ENCORE_ALLOCATE_CONST override {
    return c10::GetDefaultCPUAllocator()->allocate(nbytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return c10::GetDefaultCPUAllocator()->raw_deleter(); }
  ENCORE_ALLOCATOR_COPY_DATA
};

TEST(OrdinaryUse, AnAllocatorThatIsPutInFrontIsNoticed) {
  MemoryBudget budget("1GiB");
  c10::Allocator* ours = c10::GetAllocator(c10::kCPU);
  Replacing other;
  c10::SetAllocator(c10::kCPU, &other, 1);
  EXPECT_THROW((void)budget.step(), SlotError);
  c10::SetAllocator(c10::kCPU, ours, 1);
  EXPECT_NO_THROW((void)budget.step());
}

TEST(OrdinaryUse, AStepOfVeryManyOpsIsKeptWithoutAPlan) {
  const at::Tensor weight = torch::linspace(0.99, 1.0, 256).requires_grad_();  // equal elements would rest as one
  const auto run = [&] {
    weight.mutable_grad() = at::Tensor();
    at::Tensor x = torch::ones({256});
    for (int i = 0; i < 7000; ++i) {
      x = i % 2 == 0 ? x * weight : x.sin();
    }
    x.sum().backward();
    return weight.grad().clone();
  };
  const at::Tensor plain = run();
  const int64_t rest = live_tensor_bytes();
  MemoryBudget budget(rest + 7000 * 256 * 4 / 2);
  for (int i = 0; i < 2; ++i) {
    at::Tensor gradient;
    {
      const auto step = budget.step();
      gradient = run();
    }
    EXPECT_TRUE(same_bits(gradient, plain));
    EXPECT_EQ(budget.report().mode, StepMode::kOnline);
    EXPECT_LE(budget.report().peak_bytes, budget.limit_bytes());
    EXPECT_GT(budget.report().ops_replayed, 1000);
  }
}

TEST(OrdinaryUse, ManyStepsDoNotGrowTheBooks) {
  const at::Tensor x = torch::ones({64}).requires_grad_();
  MemoryBudget budget("1GiB");
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto step = budget.step();
      (x * 2).sum().backward();
    }
    return budget.run_json("run").size();
  };
  const size_t after_some = run(1100);
  EXPECT_LT(run(300), after_some + after_some / 50);
}

}  // namespace
}  // namespace encore::test
