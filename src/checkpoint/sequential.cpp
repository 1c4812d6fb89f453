// Where a chain of layers is cut.
#include <encore/sequential.h>

#include <chrono>
#include <map>
#include <numeric>

#include <ATen/core/grad_mode.h>

#include <encore/memory.h>

#include "region/state_then.h"

namespace encore {
namespace {

void check_counts(int64_t num_layers, int64_t num_segments) {
  if (num_layers < 1) {
    throw InvalidArgument("sequential: there is no layer");
  }
  if (num_segments < 1) {
    throw InvalidArgument("sequential: " + std::to_string(num_segments) + " segments; give at least 1");
  }
}

/// Sizes of the first-fit segments of at most `limit` each, with no more segments than asked for, or none if that many
/// don't do. Never fewer either: a segment ends early where the layers left are one for each segment left.
std::vector<int64_t> fit(const std::vector<int64_t>& costs, int64_t num_segments, int64_t limit) {
  std::vector<int64_t> sizes = {0};
  int64_t cost = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const auto layers_left = static_cast<int64_t>(costs.size() - i);
    const int64_t segments_left = num_segments - static_cast<int64_t>(sizes.size());
    if (sizes.back() > 0 && (cost + costs[i] > limit || layers_left == segments_left)) {
      sizes.push_back(0);
      cost = 0;
    }
    ++sizes.back();
    cost += costs[i];
  }
  return static_cast<int64_t>(sizes.size()) <= num_segments ? sizes : std::vector<int64_t>();
}

int64_t sum(const std::vector<int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// Segments of at most `limit` saved bytes with the least bytes at their borders: sizes and the peak.
std::pair<std::vector<int64_t>, int64_t> cut_below(const std::vector<LayerCost>& costs, int64_t limit) {
  const size_t n = costs.size();
  std::vector<int64_t> border(n + 1, -1);  // the least border bytes of a cut before layer j; -1 for none
  std::vector<size_t> from(n + 1);
  border[0] = 0;
  for (size_t j = 1; j <= n; ++j) {
    int64_t inside = 0;
    for (size_t i = j; i-- > 0;) {
      inside += costs[i].saved_bytes;
      if (inside > limit) {
        break;
      }
      const int64_t bytes = border[i] + (j < n ? costs[j - 1].output_bytes : 0);
      // Of equal cuts the one with the longer last segment: fewer segments.
      if (border[i] >= 0 && (border[j] < 0 || bytes <= border[j])) {
        border[j] = bytes;
        from[j] = i;
      }
    }
  }
  std::vector<int64_t> sizes;
  int64_t largest = 0;
  for (size_t j = n; j > 0; j = from[j]) {
    int64_t inside = 0;
    for (size_t i = from[j]; i < j; ++i) {
      inside += costs[i].saved_bytes;
    }
    largest = std::max(largest, inside);
    sizes.insert(sizes.begin(), static_cast<int64_t>(j - from[j]));
  }
  return {sizes, border[n] + largest};
}

}  // namespace

std::vector<int64_t> balanced_segments(int64_t num_layers, int64_t num_segments) {
  check_counts(num_layers, num_segments);
  const int64_t count = std::min(num_layers, num_segments);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i) {
    sizes.push_back(num_layers / count + (i < num_layers % count ? 1 : 0));
  }
  return sizes;
}

std::vector<int64_t> balanced_segments(const std::vector<int64_t>& costs, int64_t num_segments) {
  check_counts(static_cast<int64_t>(costs.size()), num_segments);
  num_segments = std::min(num_segments, static_cast<int64_t>(costs.size()));
  for (const int64_t cost : costs) {
    if (cost < 0) {
      throw InvalidArgument("sequential: a layer's cost is " + std::to_string(cost) + "; costs can't be negative");
    }
  }
  int64_t low = *std::max_element(costs.begin(), costs.end());
  int64_t high = sum(costs);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (fit(costs, num_segments, middle).empty()) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return fit(costs, num_segments, low);
}

std::vector<int64_t> least_peak_segments(const std::vector<LayerCost>& costs) {
  check_counts(static_cast<int64_t>(costs.size()), 1);
  int64_t low = 0;
  int64_t total = 0;
  for (const LayerCost& cost : costs) {
    low = std::max(low, cost.saved_bytes);
    total += cost.saved_bytes;
  }
  // Between the largest layer and all of them, in steps: the peak is flat around its least.
  const int64_t steps = costs.size() <= 128 ? 1024 : 64;
  std::pair<std::vector<int64_t>, int64_t> best = cut_below(costs, total);
  for (int64_t step = steps; step >= 0; --step) {
    auto cut = cut_below(costs, low + (total - low) * step / steps);
    if (cut.second < best.second) {
      best = std::move(cut);
    }
  }
  return best.first;
}

namespace detail {

void copy_input(at::Tensor& tensor) {
  if (!tensor.defined()) {
    return;
  }
  const record::Recorder::Pause pause;
  const at::NoGradGuard no_grad;
  const at::Tensor copy = tensor.detach().clone();
  tensor = tensor.requires_grad() && !copy.is_inference() ? region::stand_in(copy, true, tensor.is_leaf()) : copy;
}

void cut_history(at::Tensor& tensor) {
  if (tensor.defined() && tensor.requires_grad()) {
    tensor = region::stand_in(tensor, true, tensor.is_leaf());
  }
}

std::vector<LayerCost> measure_layers(int64_t num_layers, const std::function<void(int64_t)>& run,
                                      const std::function<int64_t()>& cut, const std::vector<at::Tensor>& buffers) {
  const region::UndoneCall rehearsal(buffers);
  std::vector<LayerCost> costs;
  for (int64_t i = 0; i < num_layers; ++i) {
    LayerCost cost;
    const int64_t live = live_tensor_bytes() - rehearsal.copied_bytes();
    const auto start = std::chrono::steady_clock::now();
    run(i);
    cost.forward_ns =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
    rehearsal.rethrow_failure();
    cost.saved_bytes = std::max<int64_t>(live_tensor_bytes() - rehearsal.copied_bytes() - live, 0);
    cost.output_bytes = cut();
    costs.push_back(cost);
  }
  return costs;
}

std::vector<int64_t> plan_segments(Balance balance, int64_t num_layers, int64_t num_segments,
                                   const std::function<std::vector<LayerCost>()>& measure) {
  check_counts(num_layers, num_segments == 0 ? 1 : num_segments);
  if (num_segments == 0) {
    return least_peak_segments(measure());
  }
  if (balance == Balance::kCount) {
    return balanced_segments(num_layers, num_segments);
  }
  std::vector<int64_t> costs;
  for (const LayerCost& cost : measure()) {
    costs.push_back(balance == Balance::kTime ? cost.forward_ns : cost.saved_bytes);
  }
  return balanced_segments(costs, num_segments);
}

struct SegmentPlans::Impl {
  std::mutex mutex;
  std::map<std::string, std::vector<int64_t>> plans;
};

SegmentPlans::SegmentPlans() : impl_(std::make_unique<Impl>()) {}
SegmentPlans::~SegmentPlans() = default;

std::vector<int64_t> SegmentPlans::get(const std::string& signature,
                                       const std::function<std::vector<int64_t>()>& make) {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  auto plan = impl_->plans.find(signature);
  if (plan == impl_->plans.end()) {
    plan = impl_->plans.emplace(signature, make()).first;
  }
  return plan->second;
}

}  // namespace detail
}  // namespace encore
