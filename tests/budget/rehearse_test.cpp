// Rehearsals: what they foretell is so, and they leave no trace.
#include <map>

#include "budget/batch_search.h"
#include "budget/net.h"

namespace encore::test {
namespace {

/// As in a user's program: data, a model with dropout and batch norm, an optimizer with state.
struct Training {
  explicit Training(int64_t rows = 128) : data(make_data(rows)) {}

  static at::Tensor make_data(int64_t rows) {
    torch::manual_seed(2);
    return torch::randn({rows, 64});
  }

  torch::nn::Sequential make_model() const {
    torch::manual_seed(3);
    torch::nn::Sequential layers;
    for (int i = 0; i < 6; ++i) {
      layers->push_back(torch::nn::Linear(64, 64));
      layers->push_back(torch::nn::BatchNorm1d(64));
      layers->push_back(torch::nn::Tanh());
      layers->push_back(torch::nn::Dropout(0.2));
    }
    return layers;
  }
  void backward() { backward(data.size(0)); }
  void backward(int64_t rows) { model->forward(data.slice(0, 0, rows)).square().mean().backward(); }
  void step() { step(data.size(0)); }
  void step(int64_t rows) {
    optimizer.zero_grad();
    backward(rows);
    optimizer.step();
  }
  /// Everything that a step may change, in bits.
  std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : model->parameters()) {
      all.push_back(parameter.detach().clone());
      all.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::full({1}, -1));
    }
    for (const at::Tensor& buffer : model->buffers()) {
      all.push_back(buffer.clone());
    }
    all.push_back(at::detail::getDefaultCPUGenerator().get_state());
    return all;
  }
  /// What the optimizer keeps, in the order of its keys.
  std::vector<at::Tensor> moments() const {
    using Key = std::decay_t<decltype(optimizer.state().begin()->first)>;
    std::map<Key, std::vector<at::Tensor>> sorted;
    for (const auto& [key, state] : optimizer.state()) {
      const auto& adam = static_cast<const torch::optim::AdamParamState&>(*state);
      sorted[key] = {adam.exp_avg().clone(), adam.exp_avg_sq().clone(), torch::full({1}, adam.step())};
    }
    std::vector<at::Tensor> all;
    for (const auto& [key, tensors] : sorted) {
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
    return all;
  }

  at::Tensor data;
  torch::nn::Sequential model = make_model();
  torch::optim::Adam optimizer{model->parameters()};
};

/// The peak of each of so many plain steps of a training like that.
std::vector<int64_t> plain_peaks(int steps) {
  Training training;
  std::vector<int64_t> peaks;
  for (int i = 0; i < steps; ++i) {
    const MemoryScope memory;
    training.step();
    peaks.push_back(memory.peak_bytes());
  }
  return peaks;
}

TEST(Rehearse, AUsersProgram) {
  Training training;
  MemoryBudget budget("1GiB");
  const Rehearsed rehearsed = budget.rehearse([&] { training.step(); }, {&training.optimizer});
  // Where zero_grad() fills with zeros the second step is of another kind, and online: it needs a little more than a plan.
  const int64_t least_bytes = std::max(rehearsed.first.least_bytes, rehearsed.later.least_bytes);
  budget.set_limit(least_bytes + least_bytes / 10);
  for (int i = 0; i < 3; ++i) {
    {
      const auto step = budget.step();
      training.step();
    }
    EXPECT_TRUE(i > 0 || budget.report().mode == StepMode::kPlanned) << budget.report().text();
  }
  EXPECT_EQ(budget.report().step, 2) << "a rehearsal is no step";
  EXPECT_FALSE(budget.report().refused);
  EXPECT_NE(rehearsed.text().find("least budget"), std::string::npos) << rehearsed.text();
}

TEST(Rehearse, ChangesNothing) {
  Training training;
  const auto train = [&] { training.step(); };
  for (int trained = 0; trained < 3; ++trained) {
    int64_t limit = int64_t{1} << 30;
    for (const bool tight : {false, true}) {
      const std::vector<at::Tensor> before = training.state();
      const std::vector<at::Tensor> moments = training.moments();
      std::vector<int64_t> versions;
      for (const at::Tensor& parameter : training.model->parameters()) {
        versions.push_back(parameter._version());
      }
      const int64_t live = live_tensor_bytes();
      MemoryBudget budget(limit);
      const MemoryScope memory;
      const Rehearsed rehearsed = budget.rehearse(train, {&training.optimizer});
      EXPECT_LE(memory.peak_bytes(), limit);
      EXPECT_EQ(live_tensor_bytes(), live) << "tight " << tight << ", after " << trained << " steps";
      EXPECT_TRUE(same(training.state(), before)) << "tight " << tight << ", after " << trained << " steps";
      EXPECT_TRUE(same(training.moments(), moments));
      for (size_t i = 0; i < versions.size(); ++i) {
        EXPECT_EQ(training.model->parameters()[i]._version(), versions[i]);
      }
      EXPECT_GT(rehearsed.copied_bytes, 0);
      limit = (rehearsed.first.plain_peak_bytes + rehearsed.first.least_bytes) / 2;
    }
    training.step();
  }
}

TEST(Rehearse, GradientsComeBackThatTheStepLetGoOf) {
  Training training;
  training.step();
  const std::vector<at::Tensor> before = training.state();
  MemoryBudget budget("1GiB");
  budget.rehearse(
      [&] {
        for (at::Tensor& parameter : training.model->parameters()) {
          parameter.mutable_grad() = at::Tensor();
        }
        training.backward();
      },
      {&training.optimizer});
  EXPECT_TRUE(same(training.state(), before));
}

TEST(Rehearse, AddedToGradientsAreAsTheyWere) {
  Training training;
  training.backward();
  const std::vector<at::Tensor> before = training.state();
  MemoryBudget budget("1GiB");
  budget.rehearse([&] { training.backward(); });
  EXPECT_TRUE(same(training.state(), before));
}

TEST(Rehearse, TheFirstStepAfterItIsPlannedAndHasTheBitsOfThePlainOne) {
  std::vector<std::vector<at::Tensor>> plain;
  {
    Training training;
    torch::manual_seed(7);
    for (int i = 0; i < 3; ++i) {
      training.step();
      plain.push_back(training.state());
    }
  }
  Training training;
  torch::manual_seed(7);
  MemoryBudget budget("1GiB");
  const Rehearsed roomy = budget.rehearse([&] { training.step(); }, {&training.optimizer});
  const int64_t limit = std::max((roomy.first.plain_peak_bytes + roomy.first.least_bytes) / 2, roomy.later.least_bytes);
  MemoryBudget tight(limit);
  const Rehearsed rehearsed = tight.rehearse([&] { training.step(); }, {&training.optimizer});
  EXPECT_TRUE(rehearsed.fits()) << rehearsed.text();
  for (size_t i = 0; i < plain.size(); ++i) {
    const MemoryScope memory;
    {
      const auto step = tight.step();
      training.step();
    }
    EXPECT_LE(memory.peak_bytes(), limit);
    EXPECT_TRUE(same(training.state(), plain[i])) << "step " << i;
    if (i == 0) {
      EXPECT_EQ(tight.report().mode, StepMode::kPlanned) << tight.report().text();
      EXPECT_EQ(tight.report().evictions, 0);
      EXPECT_EQ(tight.report().predicted_peak_bytes, rehearsed.first.predicted_peak_bytes);
      EXPECT_LT(tight.report().peak_bytes, rehearsed.first.plain_peak_bytes);
    }
  }
}

TEST(Rehearse, FiguresAreThoseOfPlainTraining) {
  const int64_t base = live_tensor_bytes();
  const std::vector<int64_t> peaks = plain_peaks(3);
  ASSERT_EQ(live_tensor_bytes(), base);
  Training training;
  MemoryBudget fraction = MemoryBudget::fraction(1);
  const Rehearsed measured = fraction.rehearse([&] { training.step(); }, {&training.optimizer});
  EXPECT_EQ(measured.first.plain_peak_bytes, peaks[0]);
  EXPECT_EQ(measured.later.plain_peak_bytes, peaks[1]);
  EXPECT_EQ(measured.later.plain_peak_bytes, peaks[2]);
  MemoryBudget tight((measured.first.plain_peak_bytes + measured.first.least_bytes) / 2);
  const Rehearsed modelled = tight.rehearse([&] { training.step(); }, {&training.optimizer});
  EXPECT_EQ(modelled.first.plain_peak_bytes, peaks[0]) << "by the model";
  EXPECT_EQ(modelled.first.resting_bytes, live_tensor_bytes());
  EXPECT_GT(modelled.first.plain_seconds, 0);
  EXPECT_GE(modelled.first.predicted_seconds, modelled.first.plain_seconds);
}

TEST(Rehearse, TheLeastThatItNamesWorksAtOnce) {
  Training training;
  MemoryBudget budget("1GiB");
  const Rehearsed rehearsed = budget.rehearse([&] { training.step(); }, {&training.optimizer});
  ASSERT_LT(rehearsed.first.least_bytes, rehearsed.first.plain_peak_bytes);
  budget.set_limit(rehearsed.first.least_bytes);
  const MemoryScope memory;
  {
    const auto step = budget.step();
    training.step();
  }
  EXPECT_LE(memory.peak_bytes(), rehearsed.first.least_bytes);
  EXPECT_EQ(budget.report().mode, StepMode::kPlanned) << budget.report().text();
}

TEST(Rehearse, AFractionKnowsItsBytesAfterwards) {
  Training training;
  MemoryBudget budget = MemoryBudget::fraction(0.7);
  EXPECT_EQ(budget.limit_bytes(), -1);
  const Rehearsed rehearsed = budget.rehearse([&] { training.step(); }, {&training.optimizer});
  const int64_t need = rehearsed.first.plain_peak_bytes - rehearsed.first.resting_bytes;
  EXPECT_EQ(budget.limit_bytes(),
            rehearsed.first.resting_bytes + static_cast<int64_t>(0.7 * static_cast<double>(need)));
  {
    const auto step = budget.step();
    training.step();
  }
  EXPECT_EQ(budget.report().mode, StepMode::kPlanned) << budget.report().text();
  EXPECT_LE(budget.report().peak_bytes, rehearsed.limit_bytes);
}

/// What the first step leaves at rest is not a part of the fraction: the limit is above it.
TEST(Rehearse, AFractionFollowsWhatTheFirstStepLeavesAtRest) {
  Training training(1024);
  torch::optim::SGD optimizer(training.model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const auto train = [&] {
    optimizer.zero_grad();
    training.backward();
    optimizer.step();
  };
  MemoryBudget budget = MemoryBudget::fraction(0.7);
  budget.wait_for_plans();
  budget.rehearse(train, {&optimizer});
  const int64_t need = budget.limit_bytes() - live_tensor_bytes();
  for (int i = 0; i < 4; ++i) {
    const MemoryScope memory;
    {
      const auto step = budget.step();
      train();
    }
    const StepReport report = budget.report();
    EXPECT_EQ(report.mode == StepMode::kLearning, false) << i << ": " << report.note;
    EXPECT_NEAR(static_cast<double>(report.limit_bytes - report.resting_bytes), static_cast<double>(need),
                0.01 * static_cast<double>(need))
        << i;
    EXPECT_LE(memory.peak_bytes(), report.limit_bytes) << i;
  }
}

TEST(Rehearse, AnExceptionOutOfTheStepLeavesEverythingAsItWas) {
  Training training;
  training.step();
  const std::vector<at::Tensor> before = training.state();
  const int64_t live = live_tensor_bytes();
  MemoryBudget budget("1GiB");
  const auto fails = [&] {
    training.step();
    throw std::runtime_error("at the end");
  };
  EXPECT_THROW((void)budget.rehearse(fails, {&training.optimizer}), std::runtime_error);
  EXPECT_TRUE(same(training.state(), before));
  MemoryBudget little(live + 1000);
  EXPECT_THROW((void)little.rehearse([&] { training.step(); }, {&training.optimizer}), BudgetError);
  EXPECT_TRUE(same(training.state(), before));
  EXPECT_EQ(live_tensor_bytes(), live);
  EXPECT_EQ(budget.report().step, -1);
  EXPECT_FALSE(little.refusal().has_value());
}

TEST(Rehearse, StandsOutsideOfSteps) {
  Training training;
  MemoryBudget budget("1GiB");
  {
    const auto step = budget.step();
    EXPECT_THROW((void)budget.rehearse([] {}), ScopeError);
  }
  const auto opens_one = [&] {
    const auto step = budget.step();
    training.backward();
  };
  EXPECT_THROW((void)budget.rehearse(opens_one), ScopeError);
  EXPECT_THROW((void)budget.rehearse([] {}, {nullptr}), InvalidArgument);
  const Rehearsed nothing = budget.rehearse([] {});
  EXPECT_EQ(nothing.first.least_bytes, -1);
  EXPECT_FALSE(nothing.fits());
}

TEST(Rehearse, AnOptimizerThatWasNotPassedIsAnError) {
  Training training;
  MemoryBudget budget("1GiB");
  EXPECT_THROW((void)budget.rehearse([&] { training.step(); }), InvalidArgument);
  const std::vector<at::Tensor> before = training.state();
  const auto by_hand = [&] {
    training.backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : training.model->parameters()) {
      parameter.sub_(parameter.grad(), 0.1);
    }
  };
  budget.rehearse(by_hand);
  EXPECT_TRUE(same(training.state(), before)) << "an update without state needs none";
}

TEST(Rehearse, WhatElseChangesIsPutBackByTheUser) {
  Net net;
  int steps = 0;
  MemoryBudget budget("1GiB");
  budget.rehearse(
      [&] {
        ++steps;
        net.loss().backward();
      },
      {}, [&] { --steps; });
  EXPECT_EQ(steps, 0);
  const auto fails = [&] {
    ++steps;
    throw std::runtime_error("early");
  };
  EXPECT_THROW((void)budget.rehearse(fails, {}, [&] { --steps; }), std::runtime_error);
  EXPECT_EQ(steps, 0);
}

TEST(LargestBatch, TrainsAndTheNextOneHasNoPlan) {
  Training training(512);
  const std::vector<at::Tensor> before = training.state();
  MemoryBudget budget("1GiB");
  const Rehearsed at_100 = budget.rehearse([&] { training.step(100); }, {&training.optimizer});
  const int64_t limit = std::max(at_100.first.least_bytes, at_100.later.least_bytes) + 1000;
  budget.set_limit(limit);
  LargestBatch found;
  {
    const MemoryScope memory;
    found = budget.largest_batch([&](int64_t batch) { training.step(batch); }, 2, 512, {&training.optimizer});
    EXPECT_LE(memory.peak_bytes(), limit);
  }
  EXPECT_TRUE(same(training.state(), before));
  EXPECT_GE(found.batch, 100) << "for which there is a plan";
  EXPECT_LE(found.batch, 110);
  EXPECT_TRUE(found.forecast.fits());
  EXPECT_LE(found.rehearsals, 9);
  RecordProperty("batch", static_cast<int>(found.batch));
  RecordProperty("rehearsals", static_cast<int>(found.rehearsals));
  MemoryBudget other(limit);
  try {
    const Rehearsed next = other.rehearse([&] { training.step(found.batch + 1); }, {&training.optimizer});
    EXPECT_FALSE(next.fits()) << next.text();
  } catch (const BudgetError&) {
    SUCCEED() << "not even online";
  }
  // Where zero_grad() fills gradients, the second step is of another kind: it runs online once, and may need more.
  const MemoryScope memory;
  {
    const auto step = budget.step();
    training.step(found.batch);
  }
  EXPECT_LE(memory.peak_bytes(), limit);
  EXPECT_EQ(budget.report().mode, StepMode::kPlanned) << budget.report().text();
}

TEST(LargestBatch, RefusesWhatCantBe) {
  Training training;
  const auto step = [&](int64_t batch) { training.step(batch); };
  MemoryBudget little(live_tensor_bytes() + 1000);
  EXPECT_THROW((void)little.largest_batch(step, 2, 64, {&training.optimizer}), BudgetError);
  EXPECT_THROW((void)little.largest_batch(step, 0, 64, {&training.optimizer}), InvalidArgument);
  EXPECT_THROW((void)little.largest_batch(step, 8, 4, {&training.optimizer}), InvalidArgument);
  MemoryBudget fraction = MemoryBudget::fraction(0.5);
  EXPECT_THROW((void)fraction.largest_batch(step, 2, 64, {&training.optimizer}), InvalidArgument);
  MemoryBudget roomy("1GiB");
  EXPECT_EQ(roomy.largest_batch(step, 2, 64, {&training.optimizer}).batch, 64);
}

/// Looks for the largest batch whose bytes are within the limit; `refused`: tries that are too large have no figure.
template <class Bytes>
std::pair<int64_t, int> search(const Bytes& bytes_of, int64_t high, int64_t limit, bool refused) {
  budget::BatchSearch search(1, high, limit, bytes_of(1));
  int tries = 0;
  while (const auto batch = search.next()) {
    const bool fits = bytes_of(*batch) <= limit;
    search.tried(*batch, fits, fits || !refused ? bytes_of(*batch) : -1);
    ++tries;
  }
  return {search.largest(), tries};
}

TEST(BatchSearch, FindsTheLargestInFewTries) {
  const auto line = [](int64_t batch) { return 1000 + 37 * batch; };
  const auto stairs = [](int64_t batch) { return 1000 + 370 * (batch / 10); };
  const auto curve = [](int64_t batch) { return 1000 + batch * batch; };
  const auto flat = [](int64_t) { return int64_t{500}; };
  for (const bool refused : {false, true}) {
    for (const int64_t limit : {1037, 1100, 5000, 20000, 36999, 38000, 100000}) {
      int64_t largest = std::min<int64_t>(1000, (limit - 1000) / 37);
      EXPECT_EQ(search(line, 1000, limit, refused).first, largest) << limit;
      EXPECT_LE(search(line, 1000, limit, refused).second, 4) << limit;
      while (largest < 1000 && stairs(largest + 1) <= limit) {
        ++largest;
      }
      EXPECT_EQ(search(stairs, 1000, limit, refused).first, largest) << limit;
      EXPECT_LE(search(stairs, 1000, limit, refused).second, 18) << limit;
      largest = 1;
      while (largest < 1000 && curve(largest + 1) <= limit) {
        ++largest;
      }
      EXPECT_EQ(search(curve, 1000, limit, refused).first, largest) << limit;
      EXPECT_LE(search(curve, 1000, limit, refused).second, 18) << limit;
    }
  }
  EXPECT_EQ(search(flat, 1000, 600, false).first, 1000);
}

TEST(BatchSearch, EndsWhereNoLargestIsInSight) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto [batch, tries] = search([](int64_t) { return int64_t{500}; }, kMost, 600, false);
  EXPECT_GT(batch, kMost / 16);
  EXPECT_LE(tries, 80);
}

}  // namespace
}  // namespace encore::test
