// What a measured step foretells of one that begins with more at rest.
#include "budget/step_model.h"

#include <gtest/gtest.h>

namespace encore::budget {
namespace {

/// Parameters of 100 bytes, an activation of 10, a gradient of 40, and an optimizer that makes a state of 20.
StepModel first_step() {
  StepModel model;
  model.resting_bytes = 100;
  model.graph.steps.resize(4);
  model.graph.steps[0].bytes = 10;
  model.graph.steps[1].inputs = {0};
  model.graph.steps[1].temp_bytes = 40;
  model.graph.steps[3].temp_bytes = 25;
  model.background = {0, 0, 40, 40};
  model.backward_steps = {1, 2};
  model.born = {{}, {40, 0, 40}, {}, {20, 0, 0}};
  return model;
}

std::vector<int64_t> backgrounds(const plan::Graph& graph) {
  std::vector<int64_t> bytes;
  for (const plan::Step& step : graph.steps) {
    bytes.push_back(step.background_bytes);
  }
  return bytes;
}

using Bytes = std::vector<int64_t>;

TEST(StepForecast, ForetellsItself) {
  for (const bool go : {false, true}) {
    StepModel model = first_step();
    model.gradients_go = go;
    EXPECT_EQ(backgrounds(model.graph_for(100)), (Bytes{100, 100, 140, 140}));
  }
}

TEST(StepForecast, ZeroedGradientsRestAndAreAddedTo) {
  StepModel model = first_step();
  model.gradients_go = false;
  const plan::Graph graph = model.graph_for(160);
  EXPECT_EQ(backgrounds(graph), (Bytes{160, 160, 200, 160}));
  EXPECT_EQ(graph.steps[1].temp_bytes, 40);
  EXPECT_EQ(graph.steps[3].temp_bytes, 5);
}

TEST(StepForecast, GradientsThatAreLetGoAreMadeAnew) {
  StepModel model = first_step();
  model.gradients_go = true;
  const plan::Graph graph = model.graph_for(160);
  EXPECT_EQ(backgrounds(graph), (Bytes{120, 120, 160, 160}));
  EXPECT_EQ(graph.steps[1].temp_bytes, 40);
  EXPECT_EQ(graph.steps[3].temp_bytes, 5);
}

TEST(StepForecast, WithoutGradientsAtRestOnlyTheStateIsBorn) {
  for (const bool go : {false, true}) {
    StepModel model = first_step();
    model.gradients_go = go;
    EXPECT_EQ(backgrounds(model.graph_for(120)), (Bytes{120, 120, 160, 160}));
  }
}

TEST(StepForecast, WhatIsNotThereAnyMoreIsNotLetGoAgain) {
  StepModel model = first_step();  // as a later step: a gradient rests, is let go and made anew
  model.resting_bytes = 160;
  model.background = {-40, -40, 0, 0};
  model.born[3] = {};
  EXPECT_EQ(backgrounds(model.graph_for(160)), (Bytes{120, 120, 160, 160}));
  EXPECT_EQ(backgrounds(model.graph_for(120)), (Bytes{120, 120, 160, 160})) << "gradients were gone before";
  EXPECT_EQ(backgrounds(model.graph_for(110)), (Bytes{110, 110, 150, 150})) << "and something else";
}

}  // namespace
}  // namespace encore::budget
