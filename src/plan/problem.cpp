// Flat arrays of a graph, and its plain schedule.
#include "plan/problem.h"

#include <algorithm>

namespace encore::plan {

Compact::Compact(const Graph& graph) : n(static_cast<int32_t>(graph.steps.size())) {
  in_at.push_back(0);
  out_at.assign(n + 2, 0);
  const auto add = [&](double step_time, int64_t step_bytes, int64_t step_temp, const std::vector<int32_t>& reads) {
    time.push_back(step_time);
    bytes.push_back(step_bytes);
    temp.push_back(step_temp);
    total_time += step_time;
    const auto start = in.end() - in.begin();
    in.insert(in.end(), reads.begin(), reads.end());
    std::sort(in.begin() + start, in.end());
    in.erase(std::unique(in.begin() + start, in.end()), in.end());
    in_at.push_back(static_cast<int32_t>(in.size()));
  };
  for (const Step& step : graph.steps) {
    add(step.time, step.bytes, step.temp_bytes, step.inputs);
  }
  add(0, 0, 0, graph.outputs);
  for (const int32_t input : in) {
    ++out_at[input + 1];
  }
  for (int32_t i = 0; i <= n; ++i) {
    out_at[i + 1] += out_at[i];
  }
  out.resize(in.size());
  std::vector<int32_t> next(out_at.begin(), out_at.end() - 1);
  for (int32_t i = 0; i <= n; ++i) {
    for (const int32_t input : inputs(i)) {
      out[next[input]++] = i;
    }
  }
}

Schedule plain_schedule(const Compact& graph) {
  Schedule schedule;
  const auto dies = [&](int32_t i, int32_t at) {
    const Span users = graph.users(i);
    return (users.size() == 0 ? i : users.end()[-1]) == at;
  };
  for (int32_t t = 0; t < graph.n; ++t) {
    schedule.push_back({OpKind::kCompute, t, 0});
    for (const int32_t input : graph.inputs(t)) {
      if (dies(input, t)) {
        schedule.push_back({OpKind::kDrop, input, 0});
      }
    }
    if (dies(t, t)) {
      schedule.push_back({OpKind::kDrop, t, 0});
    }
  }
  return schedule;
}

}  // namespace encore::plan
