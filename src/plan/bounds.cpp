// Lower bounds on peak and time.
#include "plan/bounds.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {
namespace {

constexpr int32_t kMaxCuts = 256;

int64_t while_running(const Compact& graph, int32_t t) {
  int64_t bytes = graph.bytes[t] + graph.temp[t] + graph.background[t];
  for (const int32_t input : graph.inputs(t)) {
    bytes += graph.bytes[input];
  }
  return bytes;
}

}  // namespace

int64_t least_peak(const Compact& graph) {
  int64_t least = 0;
  for (int32_t t = 0; t <= graph.n; ++t) {
    least = std::max(least, while_running(graph, t));
  }
  return least;
}

// When step t is first computed, every earlier value that a later first computation reads is in memory, or encoded, or
// will be computed again. So at least the cheapest set of such values, by time for each byte, is computed again whose
// bytes don't fit beside step t and its inputs (the last value counted in part). The best of these cuts is the bound.
double least_extra_time(const Compact& graph, const Graph& source, int64_t budget_bytes) {
  if (least_peak(graph) > budget_bytes) {
    return INFINITY;
  }
  std::vector<double> price(graph.n);
  for (int32_t i = 0; i < graph.n; ++i) {
    price[i] = graph.time[i];
    for (const Variant& variant : source.steps[i].variants) {
      price[i] = std::min(price[i], variant.encode_time + variant.decode_time);
    }
  }
  std::vector<int32_t> by_price;
  for (int32_t i = 0; i < graph.n; ++i) {
    if (graph.bytes[i] > 0) {  // the others have no price for a byte, and no place in the order
      by_price.push_back(i);
    }
  }
  std::stable_sort(by_price.begin(), by_price.end(), [&](int32_t a, int32_t b) {
    return price[a] * static_cast<double>(graph.bytes[b]) < price[b] * static_cast<double>(graph.bytes[a]);
  });
  std::vector<int32_t> cuts = by_bytes_held(graph);
  const int32_t most = std::min(graph.n, std::max<int32_t>(8, std::min<int32_t>(kMaxCuts, 4'000'000 / graph.n)));
  cuts.resize(most);
  double best = 0;
  for (const int32_t t : cuts) {
    const auto crosses = [&](int32_t i) {
      const Span inputs = graph.inputs(t);
      return i < t && graph.users(i).size() > 0 && graph.users(i).end()[-1] > t &&
             !std::binary_search(inputs.begin(), inputs.end(), i);
    };
    int64_t too_much = while_running(graph, t) - budget_bytes;
    for (int32_t i = 0; i < t; ++i) {
      too_much += crosses(i) ? graph.bytes[i] : 0;
    }
    double time = 0;
    for (size_t k = 0; k < by_price.size() && too_much > 0; ++k) {
      const int32_t i = by_price[k];
      if (crosses(i)) {
        if (graph.held_until[i] >= t) {
          continue;  // It is there whatever it costs.
        }
        const int64_t freed = std::min(too_much, graph.bytes[i]);
        time += price[i] * static_cast<double>(freed) / static_cast<double>(graph.bytes[i]);
        too_much -= graph.bytes[i];
      }
    }
    best = std::max(best, too_much > 0 ? INFINITY : time);
  }
  return best;
}

}  // namespace encore::plan
