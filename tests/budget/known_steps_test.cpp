// How many plans of a kind of step are kept.
#include "budget/known_steps.h"

#include <gtest/gtest.h>

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

/// A chain forward, and back again from its values: half of its bytes are needed at once.
StepModel chain_model() {
  constexpr int32_t kLength = 40;
  StepModel model;
  for (int32_t i = 0; i < 2 * kLength; ++i) {
    plan::Step step;
    step.time = 1;
    step.bytes = i < kLength ? 1000 : 0;
    if (i < kLength && i > 0) {
      step.inputs = {i - 1};
    } else if (i >= kLength) {
      step.inputs = {2 * kLength - 1 - i};
      model.backward_steps.push_back(i);
    }
    model.graph.steps.push_back(step);
    model.units.emplace_back();
    if (i < kLength) {
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

}  // namespace
}  // namespace encore::budget
