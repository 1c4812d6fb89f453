// Finds the step and the values behind a refusal.
#include "plan/refusal.h"

#include <algorithm>
#include <vector>

#include <encore/bytes.h>

#include "plan/problem.h"

namespace encore::plan {
namespace {

constexpr size_t kNamed = 5;

std::string name_of(const Graph& graph, int32_t step) {
  return "step " + std::to_string(step) + " ('" + graph.steps[static_cast<size_t>(step)].name + "')";
}

// "a of 2 MiB, b of 1 MiB and 3 others", the largest first.
std::string list_of(const Graph& graph, std::vector<int32_t> steps) {
  const auto bytes = [&](int32_t step) { return graph.steps[static_cast<size_t>(step)].bytes; };
  std::stable_sort(steps.begin(), steps.end(), [&](int32_t a, int32_t b) { return bytes(a) > bytes(b); });
  std::string text;
  for (size_t k = 0; k < std::min(kNamed, steps.size()); ++k) {
    text += (k > 0 ? ", " : "") + name_of(graph, steps[k]) + " of " + format_bytes(bytes(steps[k]));
  }
  if (steps.size() > kNamed) {
    text += " and " + std::to_string(steps.size() - kNamed) + " others";
  }
  return text;
}

// What a step takes besides the values it reads.
std::string own_bytes(const Graph& graph, int32_t step) {
  const Step& it = graph.steps[static_cast<size_t>(step)];
  std::string text = format_bytes(it.bytes) + " for its value";
  text += it.temp_bytes > 0 ? ", " + format_bytes(it.temp_bytes) + " while it runs" : "";
  return text + (it.background_bytes > 0 ? ", " + format_bytes(it.background_bytes) + " in the background" : "");
}

struct Peak {
  int64_t bytes = 0;
  int32_t step = 0;
  bool again = false;
  std::vector<int32_t> there;
};

Peak peak_of(const Graph& graph, const Schedule& schedule) {
  std::vector<char> whole(graph.steps.size(), 0);
  std::vector<char> seen(graph.steps.size(), 0);
  std::vector<int32_t> form(graph.steps.size(), -1);
  int64_t resident = 0;
  size_t next = 0;
  Peak peak;
  for (const Op& op : schedule) {
    const auto step = static_cast<size_t>(op.step);
    const Step& it = graph.steps[step];
    if (op.kind == OpKind::kCompute) {
      const int64_t background = next < graph.steps.size() ? graph.steps[next].background_bytes : 0;
      const int64_t bytes = resident + it.bytes + it.temp_bytes + background;
      if (bytes > peak.bytes) {
        peak = {bytes, op.step, seen[step] != 0, {}};
        for (size_t i = 0; i < whole.size(); ++i) {
          if (whole[i] != 0) {
            peak.there.push_back(static_cast<int32_t>(i));
          }
        }
      }
      next += seen[step] == 0 ? 1 : 0;
      seen[step] = whole[step] = 1;
      resident += it.bytes;
    } else if (op.kind == OpKind::kDrop) {
      resident -= whole[step] != 0 ? it.bytes : it.variants[static_cast<size_t>(form[step])].bytes;
      whole[step] = 0;
    } else {
      const bool encode = op.kind == OpKind::kEncode;
      form[step] = encode ? op.variant : form[step];
      const int64_t saved = it.bytes - it.variants[static_cast<size_t>(form[step])].bytes;
      resident += encode ? -saved : saved;
      whole[step] = encode ? 0 : 1;
    }
  }
  return peak;
}

}  // namespace

std::string explain_refusal(const Graph& graph, int64_t budget_bytes, const Schedule& lowest) {
  const Compact compact(graph);
  int64_t most = 0;
  int32_t worst = 0;
  for (int32_t t = 0; t <= compact.n; ++t) {
    int64_t bytes = compact.bytes[t] + compact.temp[t] + compact.background[t];
    for (const int32_t input : compact.inputs(t)) {
      bytes += compact.bytes[input];
    }
    if (bytes > most) {
      most = bytes;
      worst = t;
    }
  }
  const Span reads = compact.inputs(worst);
  const std::vector<int32_t> inputs(reads.begin(), reads.end());
  if (most > budget_bytes && worst == compact.n) {
    return "the outputs together are " + format_bytes(most) + ": " + list_of(graph, inputs);
  }
  if (most > budget_bytes) {
    return name_of(graph, worst) + " needs " + format_bytes(most) + " at once: " + own_bytes(graph, worst) +
           (inputs.empty() ? "" : ", and it reads or finds held " + list_of(graph, inputs));
  }
  const Peak peak = peak_of(graph, lowest);
  return "each step alone fits, but no schedule is known that keeps so little; in the one with the lowest peak, " +
         format_bytes(peak.bytes) + " are needed when " + name_of(graph, peak.step) +
         (peak.again ? " is computed again" : " runs") + ": " + own_bytes(graph, peak.step) +
         (peak.there.empty() ? "" : ", and in memory are " + list_of(graph, peak.there));
}

}  // namespace encore::plan
