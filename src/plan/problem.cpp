// Flat arrays of a graph, and its plain schedule.
#include "plan/problem.h"

#include <algorithm>
#include <numeric>

namespace encore::plan {

Compact::Compact(const Graph& graph) : n(static_cast<int32_t>(graph.steps.size())) {
  in_at.push_back(0);
  read_at.push_back(0);
  out_at.assign(n + 2, 0);
  // Holding a value until a step is reading it there.
  std::vector<std::vector<int32_t>> held(n);
  for (int32_t i = 0; i < n; ++i) {
    if (graph.steps[i].held_until > i) {
      held[graph.steps[i].held_until].push_back(i);
    }
  }
  const auto sort_from = [](int32_t start, std::vector<int32_t>* steps) {
    std::sort(steps->begin() + start, steps->end());
    steps->erase(std::unique(steps->begin() + start, steps->end()), steps->end());
    return static_cast<int32_t>(steps->size());
  };
  const auto add = [&](const Step& step, const std::vector<int32_t>& inputs, const std::vector<int32_t>& holds) {
    time.push_back(step.time);
    bytes.push_back(step.bytes);
    temp.push_back(step.temp_bytes);
    background.push_back(step.background_bytes);
    held_until.push_back(step.held_until);
    total_time += step.time;
    read.insert(read.end(), inputs.begin(), inputs.end());
    read_at.push_back(sort_from(read_at.back(), &read));
    in.insert(in.end(), inputs.begin(), inputs.end());
    in.insert(in.end(), holds.begin(), holds.end());
    in_at.push_back(sort_from(in_at.back(), &in));
  };
  for (int32_t i = 0; i < n; ++i) {
    add(graph.steps[i], graph.steps[i].inputs, held[i]);
  }
  add(Step(), graph.outputs, {});
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

std::vector<int32_t> by_bytes_held(const Compact& graph) {
  std::vector<int64_t> held(graph.n + 1, 0);
  for (int32_t i = 0; i < graph.n; ++i) {
    if (graph.users(i).size() > 0) {
      held[i] += graph.bytes[i];
      held[graph.users(i).end()[-1]] -= graph.bytes[i];
    }
  }
  std::partial_sum(held.begin(), held.end(), held.begin());
  std::vector<int32_t> order(graph.n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return held[a] > held[b]; });
  return order;
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
