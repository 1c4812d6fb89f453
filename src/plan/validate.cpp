// The slow checker. It keeps sets of what is resident and adds everything up at every op; it must not share code with
// simulate(), or a mistake in one would be a mistake in both.
#include <encore/plan/validate.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace encore::plan {
namespace {

struct Memory {
  std::set<int32_t> whole;
  std::map<int32_t, int32_t> encoded;  // Step -> variant.

  [[nodiscard]] int64_t sum(const Graph& graph) const {
    int64_t bytes = 0;
    for (const int32_t step : whole) {
      bytes += graph.steps.at(step).bytes;
    }
    for (const auto& [step, variant] : encoded) {
      bytes += graph.steps.at(step).variants.at(variant).bytes;
    }
    return bytes;
  }
};

// Empty, or what is wrong with the op at this point.
std::string objection(const Graph& graph, const Memory& memory, const Op& op) {
  const std::string step = std::to_string(op.step);
  if (op.step < 0 || op.step >= static_cast<int64_t>(graph.steps.size())) {
    return "step " + step + " does not exist";
  }
  const bool whole = memory.whole.count(op.step) != 0;
  const bool encoded = memory.encoded.count(op.step) != 0;
  if (op.kind == OpKind::kCompute) {
    if (whole || encoded) {
      return "compute " + step + ": its value is there";
    }
    for (const int32_t input : graph.steps.at(op.step).inputs) {
      if (memory.whole.count(input) == 0) {
        return "compute " + step + ": input " + std::to_string(input) + " is missing";
      }
    }
  } else if (op.kind == OpKind::kDrop) {
    if (!whole && !encoded) {
      return "drop " + step + ": its value is missing";
    }
  } else if (op.kind == OpKind::kEncode) {
    const auto variants = static_cast<int64_t>(graph.steps.at(op.step).variants.size());
    if (!whole || op.variant < 0 || op.variant >= variants) {
      return "encode " + step + " to variant " + std::to_string(op.variant) + ": value or variant is missing";
    }
  } else if (!encoded) {
    return "decode " + step + ": its value is not encoded";
  }
  return "";
}

struct Taken {
  double time = 0;
  int64_t bytes = 0;  // Besides what was resident before.
};

// Runs the op, to which there is no objection.
Taken carry_out(const Step& step, const Op& op, Memory* memory) {
  switch (op.kind) {
    case OpKind::kCompute:
      memory->whole.insert(op.step);
      return {step.time, step.bytes + step.temp_bytes};
    case OpKind::kDrop:
      memory->whole.erase(op.step);
      memory->encoded.erase(op.step);
      return {};
    case OpKind::kEncode: {
      const Variant& variant = step.variants.at(op.variant);
      memory->whole.erase(op.step);
      memory->encoded[op.step] = op.variant;
      return {variant.encode_time, variant.bytes};
    }
    case OpKind::kDecode: {
      const Variant& variant = step.variants.at(memory->encoded.at(op.step));
      memory->encoded.erase(op.step);
      memory->whole.insert(op.step);
      return {variant.decode_time, step.bytes};
    }
  }
  return {};
}

// Empty, or what is wrong at the end.
std::string objection_to_end(const Graph& graph, const Memory& memory, const std::set<int32_t>& computed) {
  for (size_t step = 0; step < graph.steps.size(); ++step) {
    if (computed.count(static_cast<int32_t>(step)) == 0) {
      return "step " + std::to_string(step) + " is never computed";
    }
  }
  for (const int32_t step : graph.outputs) {
    if (memory.whole.count(step) == 0) {
      return "output " + std::to_string(step) + " is missing at the end";
    }
  }
  return "";
}

}  // namespace

Verdict validate(const Graph& graph, const Schedule& schedule) {
  Verdict verdict;
  Memory memory;
  std::set<int32_t> computed;
  verdict.in_order = true;
  for (size_t at = 0; at < schedule.size(); ++at) {
    const Op& op = schedule[at];
    verdict.problem = objection(graph, memory, op);
    if (!verdict.problem.empty()) {
      verdict.problem = "op " + std::to_string(at) + ": " + verdict.problem;
      return verdict;
    }
    const Step& step = graph.steps.at(op.step);
    int64_t during = memory.sum(graph);
    // The last step that has run, plus one, is the one that is due.
    const auto due = computed.empty() ? 0 : static_cast<size_t>(*computed.rbegin()) + 1;
    if (due < graph.steps.size() && op.kind != OpKind::kDrop) {
      during += graph.steps[due].background_bytes;
    }
    if (step.held_until >= static_cast<int64_t>(due) && computed.count(op.step) != 0) {
      verdict.problem = "op " + std::to_string(at) + ": step " + std::to_string(op.step) + " is held";
      return verdict;
    }
    const Taken taken = carry_out(step, op, &memory);
    verdict.time += taken.time;
    verdict.peak_bytes = std::max(verdict.peak_bytes, during + taken.bytes);
    const bool first = op.kind == OpKind::kCompute && computed.insert(op.step).second;
    if (first && static_cast<int64_t>(computed.size()) != op.step + 1) {
      verdict.in_order = false;
    }
  }
  verdict.problem = objection_to_end(graph, memory, computed);
  verdict.valid = verdict.problem.empty();
  return verdict;
}

}  // namespace encore::plan
