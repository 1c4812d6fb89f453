// Lower bounds on peak and time.
#include "plan/bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plan/last_path.h"

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

// All steps (the sink too), those first for which much has to be in memory if nothing is ever used twice.
std::vector<int32_t> by_need(const Compact& graph) {
  std::vector<double> need(graph.n + 1, 0);
  std::vector<int32_t> inputs;
  for (int32_t t = 0; t <= graph.n; ++t) {
    inputs.assign(graph.inputs(t).begin(), graph.inputs(t).end());
    const auto rest = [&](int32_t i) { return need[i] - static_cast<double>(graph.bytes[i]); };
    std::sort(inputs.begin(), inputs.end(), [&](int32_t a, int32_t b) { return rest(a) > rest(b); });
    double waiting = 0;
    for (const int32_t input : inputs) {
      need[t] = std::max(need[t], waiting + need[input]);
      waiting += static_cast<double>(graph.bytes[input]);
    }
    need[t] = std::max(need[t], waiting + static_cast<double>(graph.bytes[t] + graph.temp[t]));
  }
  std::vector<int32_t> order(graph.n + 1);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return need[a] > need[b]; });
  return order;
}

}  // namespace

int64_t least_peak_by_paths(const Compact& compact, const Graph& graph, int64_t least, int64_t most, int64_t max_work) {
  constexpr int32_t kFew = 100;
  // In large graphs others than the neediest step say no more than it does.
  const bool few = compact.n <= kFew;
  const size_t count = few ? compact.n + 1 : 1;
  const double close = few ? 1 : compact.n <= 300 ? 1.001 : 1.01;
  LastPath paths(compact, graph);
  const std::vector<int32_t> targets = by_need(compact);
  for (size_t k = 0; k < count; ++k) {
    // A step that doesn't show a little more isn't asked for more. Then further and further up, and halving.
    int64_t not_shown = most + 1;
    double part = few ? 1 : 1.02;
    while (static_cast<double>(not_shown) > static_cast<double>(least) * close + 1) {
      const auto low = static_cast<double>(least);
      const double middle = std::min(low * part, std::sqrt(low * static_cast<double>(not_shown)));
      const int64_t bytes = std::clamp(static_cast<int64_t>(middle), least + 1, not_shown - 1);
      if (paths.work() > max_work) {
        return least;
      }
      if (paths.needs(targets[k], bytes, max_work / 3)) {
        least = bytes;
        part = std::max(1.1, part * part);
      } else if (part <= 1.02) {
        break;
      } else {
        not_shown = bytes;
      }
    }
  }
  return least;
}

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
