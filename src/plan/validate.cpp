// The slow checker. It keeps sets of what is resident and adds everything up at every op; it must not share code with
// simulate(), or a mistake in one would be a mistake in both.
#include <encore/plan/validate.h>

#include <map>
#include <set>
#include <sstream>

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
  std::ostringstream text;
  if (op.step < 0 || op.step >= static_cast<int64_t>(graph.steps.size())) {
    text << "step " << op.step << " does not exist";
    return text.str();
  }
  const bool whole = memory.whole.count(op.step) != 0;
  const bool encoded = memory.encoded.count(op.step) != 0;
  if (op.kind == OpKind::kCompute) {
    if (whole || encoded) {
      text << "compute " << op.step << ": its value is there";
      return text.str();
    }
    for (const int32_t input : graph.steps.at(op.step).inputs) {
      if (memory.whole.count(input) == 0) {
        text << "compute " << op.step << ": input " << input << " is missing";
        return text.str();
      }
    }
  } else if (op.kind == OpKind::kDrop) {
    if (!whole && !encoded) {
      text << "drop " << op.step << ": its value is missing";
    }
  } else if (op.kind == OpKind::kEncode) {
    const auto variants = static_cast<int64_t>(graph.steps.at(op.step).variants.size());
    if (!whole || op.variant < 0 || op.variant >= variants) {
      text << "encode " << op.step << " to variant " << op.variant << ": value or variant is missing";
    }
  } else if (!encoded) {
    text << "decode " << op.step << ": its value is not encoded";
  }
  return text.str();
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
    if (op.kind == OpKind::kCompute) {
      during += step.bytes + step.temp_bytes;
      verdict.time += step.time;
      if (computed.insert(op.step).second && static_cast<int64_t>(computed.size()) != op.step + 1) {
        verdict.in_order = false;
      }
      memory.whole.insert(op.step);
    } else if (op.kind == OpKind::kDrop) {
      memory.whole.erase(op.step);
      memory.encoded.erase(op.step);
    } else if (op.kind == OpKind::kEncode) {
      during += step.variants.at(op.variant).bytes;
      verdict.time += step.variants.at(op.variant).encode_time;
      memory.whole.erase(op.step);
      memory.encoded[op.step] = op.variant;
    } else {
      during += step.bytes;
      verdict.time += step.variants.at(memory.encoded.at(op.step)).decode_time;
      memory.encoded.erase(op.step);
      memory.whole.insert(op.step);
    }
    if (during > verdict.peak_bytes) {
      verdict.peak_bytes = during;
    }
  }
  for (size_t step = 0; step < graph.steps.size(); ++step) {
    if (computed.count(static_cast<int32_t>(step)) == 0) {
      verdict.problem = "step " + std::to_string(step) + " is never computed";
      return verdict;
    }
  }
  for (const int32_t step : graph.outputs) {
    if (memory.whole.count(step) == 0) {
      verdict.problem = "output " + std::to_string(step) + " is missing at the end";
      return verdict;
    }
  }
  verdict.valid = true;
  return verdict;
}

}  // namespace encore::plan
