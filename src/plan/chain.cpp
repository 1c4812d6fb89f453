// Chains: their checks and their graph.
#include <encore/plan/chain.h>

#include <string>

#include <encore/error.h>

namespace encore::plan {

void check(const Chain& chain) {
  if (chain.stages.empty()) {
    throw InvalidArgument("stages is empty; a chain has at least one stage");
  }
  if (chain.input_bytes < 0) {
    throw InvalidArgument("input_bytes is " + std::to_string(chain.input_bytes) + "; it must not be negative");
  }
  for (size_t s = 0; s < chain.stages.size(); ++s) {
    const Stage& stage = chain.stages[s];
    const auto refuse = [&](const char* field, const std::string& what) {
      throw InvalidArgument("stage " + std::to_string(s) + ": " + field + " " + what);
    };
    const auto check_bytes = [&](const char* field, int64_t bytes) {
      if (bytes < 0) {
        refuse(field, "is " + std::to_string(bytes) + "; it must not be negative");
      }
    };
    check_bytes("output_bytes", stage.output_bytes);
    check_bytes("saved_bytes", stage.saved_bytes);
    check_bytes("forward_temp_bytes", stage.forward_temp_bytes);
    check_bytes("backward_temp_bytes", stage.backward_temp_bytes);
    if (stage.saved_bytes < stage.output_bytes) {
      refuse("saved_bytes", "is " + std::to_string(stage.saved_bytes) + ", less than output_bytes, " +
                                std::to_string(stage.output_bytes) + ", which it includes");
    }
    for (const auto& [field, time] :
         {std::pair<const char*, double>{"forward_time", stage.forward_time}, {"backward_time", stage.backward_time}}) {
      if (!(time >= 0)) {
        refuse(field, "is " + std::to_string(time) + "; it must not be negative or NaN");
      }
    }
  }
  try {
    check(to_graph(chain));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(std::string("the graph of the stages: ") + error.what());
  }
}

Graph to_graph(const Chain& chain) {
  const ChainSteps steps{static_cast<int32_t>(chain.stages.size())};
  const int32_t n = steps.stages;
  const auto bytes_of = [&](int32_t stage) {
    return stage == 0 ? chain.input_bytes : chain.stages[stage - 1].output_bytes;
  };
  Graph graph;
  graph.steps.reserve(3 * static_cast<size_t>(n) + 2);
  graph.steps.push_back({"input", 0, chain.input_bytes, 0, {}, {}});
  for (int32_t s = 1; s <= n; ++s) {
    const Stage& stage = chain.stages[s - 1];
    graph.steps.push_back({"saved" + std::to_string(s),
                           stage.forward_time,
                           stage.saved_bytes - stage.output_bytes,
                           stage.forward_temp_bytes,
                           {steps.output(s - 1)},
                           {}});
    graph.steps.push_back({"output" + std::to_string(s), 0, stage.output_bytes, 0, {steps.saved(s)}, {}});
  }
  graph.steps.push_back({"gradient" + std::to_string(n), 0, bytes_of(n), 0, {steps.output(n)}, {}});
  for (int32_t s = n; s >= 1; --s) {
    const Stage& stage = chain.stages[s - 1];
    graph.steps.push_back({"gradient" + std::to_string(s - 1),
                           stage.backward_time,
                           bytes_of(s - 1),
                           stage.backward_temp_bytes,
                           {steps.output(s - 1), steps.saved(s), steps.output(s), steps.gradient(s)},
                           {}});
  }
  graph.outputs = {steps.gradient(0)};
  return graph;
}

}  // namespace encore::plan
