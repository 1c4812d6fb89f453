// Which plans of a kind of step are kept and taken, and who waits for whom.
#include "budget/known_steps.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "budget/fraction.h"

namespace encore::budget {
namespace {

/// A limit that changes with each step would have one plan more each time.
TEST(KnownSteps, KeepAFewPlansOfAKindTheLatestOnes) {
  KnownStep step;
  for (int64_t bytes = 1; bytes <= 100; ++bytes) {
    Itinerary itinerary;
    itinerary.plan.peak_bytes = bytes;
    step.add(std::move(itinerary));
  }
  ASSERT_EQ(step.plans.size(), 8U);
  EXPECT_EQ(step.plans.front()->plan.peak_bytes, 93);
  EXPECT_EQ(step.plans.back()->plan.peak_bytes, 100);
}

Itinerary searched_plan(int64_t limit_bytes, int64_t resting_bytes, int64_t peak_bytes, double time) {
  Itinerary itinerary;
  itinerary.searched_for = {limit_bytes, resting_bytes};
  itinerary.resting_bytes = resting_bytes;
  itinerary.plan.peak_bytes = peak_bytes;
  itinerary.plan.time = time;
  return itinerary;
}

TEST(KnownSteps, WhatASketchTookWasNeverSearched) {
  KnownStep step;
  for (int64_t limit = 101; limit <= 108; ++limit) {
    step.add(searched_plan(limit, 0, limit, 1));
    step.searched.push_back({limit, 0});
  }
  step.add(Itinerary());
  EXPECT_EQ(step.plans.size(), 8U);
  EXPECT_FALSE(step.has_searched(101, 0, 0)) << "its plan is gone";
  EXPECT_TRUE(step.has_searched(102, 0, 0));
  step.add(searched_plan(109, 0, 109, 1));
  EXPECT_TRUE(step.has_searched(102, 0, 0)) << "the sketch went first";
}

TEST(KnownSteps, APlanOfAStartWithLessAtRestIsNotTakenWhereItDoesNotFit) {
  KnownStep step;
  step.add(searched_plan(110, 20, 105, 2));
  step.add(searched_plan(110, 0, 100, 1));
  step.searched = {{110, 20}, {110, 0}};
  ASSERT_TRUE(step.has_searched(110, 0, 1));
  EXPECT_EQ(step.plan->plan.peak_bytes, 100);
  ASSERT_TRUE(step.has_searched(110, 20, 1));
  EXPECT_EQ(step.plan->plan.peak_bytes, 105) << "the other takes 120 from there";
}

/// A chain forward, and back again from its values: half of its bytes are needed at once.
StepModel chain_model(int32_t num_values = 40) {
  StepModel model;
  for (int32_t i = 0; i < 2 * num_values; ++i) {
    plan::Step step;
    step.time = 1;
    step.bytes = i < num_values ? 1000 : 0;
    if (i < num_values && i > 0) {
      step.inputs = {i - 1};
    } else if (i >= num_values) {
      step.inputs = {2 * num_values - 1 - i};
      model.backward_steps.push_back(i);
    }
    model.graph.steps.push_back(step);
    model.units.emplace_back();
    if (i < num_values) {
      model.units.back().values = {i};
    }
    model.background.push_back(0);
    model.born.emplace_back();
    model.path.push_back(static_cast<uint64_t>(i) + 1);
    model.step_of_event.push_back(i);
  }
  return model;
}

TEST(KnownSteps, AStepFollowsASketchWhileItsPlanIsSearchedFor) {
  constexpr int64_t kLimitBytes = 20'000;
  for (const bool waits : {false, true}) {
    KnownSteps known;
    known.rehearsed(chain_model(), {}, kLimitBytes, 0);
    KnownStep& step = *known.latest();
    step.planned_limit_bytes = -1;  // nothing is planned yet
    known.prepare(step, kLimitBytes, 0, waits);
    ASSERT_NE(step.plan, nullptr);
    EXPECT_LE(step.plan->plan.peak_bytes, kLimitBytes);
    EXPECT_EQ(step.is_being_planned, !waits);
    EXPECT_EQ(step.plans_made, waits ? 1 : 0);
  }
}

TEST(KnownSteps, AKindThatCameOnceIsNotSearchedForAsLongAsASketchDoes) {
  constexpr int64_t kLimitBytes = 20'000;
  KnownSteps known;
  known.rehearsed(chain_model(), {}, kLimitBytes, 0);
  KnownStep& step = *known.latest();
  step.planned_limit_bytes = -1;
  step.sight = {};
  step.sight.count = 1;
  step.sight.streak = 1;
  known.prepare(step, kLimitBytes, 0, /*waits=*/false);
  ASSERT_NE(step.plan, nullptr);
  EXPECT_FALSE(step.is_being_planned);
  step.sight.count = 2;
  known.prepare(step, kLimitBytes, 0, /*waits=*/false);
  EXPECT_TRUE(step.is_being_planned);
}

/// How it comes to that: a source that was copied in one run and lost in the other. See StepModel.
TEST(KnownSteps, OfAPathWithOtherStepsNothingThatWasKnownIsKept) {
  constexpr int64_t kLimitBytes = 20'000;
  KnownSteps known;
  known.rehearsed(chain_model(), {}, kLimitBytes, 0);
  known.latest()->planned_limit_bytes = -1;
  known.prepare(*known.latest(), kLimitBytes, 0, /*waits=*/true);
  ASSERT_FALSE(known.latest()->plans.empty());
  StepModel other = chain_model();
  other.graph.steps.emplace_back();
  other.units.emplace_back();
  other.background.push_back(0);
  other.born.emplace_back();
  const Sight sight = known.see(other.signature(), 1);
  known.learn(other, kLimitBytes, sight, 0);
  ASSERT_NE(known.latest(), nullptr);
  EXPECT_EQ(known.latest()->model->graph.steps.size(), other.graph.steps.size());
  EXPECT_EQ(known.latest()->seconds.size(), 1U);
  EXPECT_TRUE(known.latest()->plans.empty());
}

TEST(KnownSteps, AStepThatNoSketchFitsWaitsForTheSearchOfAnother) {
  KnownSteps known;
  known.rehearsed(chain_model(900), {}, 200'000, 0);
  known.latest()->planned_limit_bytes = -1;
  known.prepare(*known.latest(), 200'000, 0, /*waits=*/false);
  ASSERT_TRUE(known.latest()->is_being_planned);
  const StepModel model = chain_model();
  const int64_t least = KnownSteps::plan_for(model.graph_for(0), 1, /*minimum=*/true)->min_feasible_bytes;
  known.rehearsed(model, {}, least, 0);
  known.latest()->planned_limit_bytes = -1;
  known.prepare(*known.latest(), least, 0, /*waits=*/false);
  ASSERT_NE(known.latest()->plan, nullptr);
  EXPECT_LE(known.latest()->plan->plan.peak_bytes, least);
}

TEST(KnownSteps, AChildSearchesForWhatItsParentWasSearchingFor) {
  KnownSteps known;
  known.rehearsed(chain_model(900), {}, 200'000, 0);
  KnownStep& step = *known.latest();
  step.planned_limit_bytes = -1;
  known.prepare(step, 200'000, 0, /*waits=*/false);
  ASSERT_TRUE(step.is_being_planned);
  const pid_t child = fork();
  if (child == 0) {
    known.prepare(step, 200'000, 0, /*waits=*/true);
    _exit(step.plans_made == 1 && !step.is_being_planned ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// A loop that keeps its outputs has more at rest after each step: no curve is the last word there.
TEST(Fraction, CurvesOfAStepThatNeverSettlesComeToAnEnd) {
  Fraction fraction;
  fraction.of = Fraction::Of::kLeast;
  const auto model = std::make_shared<StepModel>(chain_model());
  int looks = 0;
  for (int64_t step = 1; step <= 20 && !fraction.is_looked_at(model->signature()); ++step) {
    fraction.news = model;
    fraction.learn(step * 1'000'000, Background<int>::kForever);
    ++looks;
  }
  EXPECT_LT(looks, 10);
  EXPECT_GT(fraction.need_bytes, 0);
}

}  // namespace
}  // namespace encore::budget
