// Sets of what is gone (union-find, as DTR does), and what the plain run still has.
#include "plan/worths.h"

#include <algorithm>
#include <cmath>

namespace encore::plan {
namespace {

// A value that more steps than these have to run again for is dear; how much its time then counts.
constexpr size_t kManySteps = 30;
constexpr double kDear = 1e3;

}  // namespace

Worths::Worths(const Compact& graph, const Worth& worth)
    : graph_(graph),
      worth_(worth),
      last_use_(graph.n + 1, 0),
      set_(graph.n + 1, -1),
      time_again_(graph.out.size(), -1),
      seen_(graph.n + 1, 0) {
  for (int32_t k = 0; k <= 2 * graph.n + 1; ++k) {
    powers_.push_back(worth.distance == 1 ? k : std::pow(k, worth.distance));
  }
}

int32_t Worths::find(int32_t set) {
  while (parent_[set] != set) {
    parent_[set] = parent_[parent_[set]];
    set = parent_[set];
  }
  return set;
}

void Worths::set_gone(int32_t step) {
  const auto own = static_cast<int32_t>(parent_.size());
  set_[step] = own;
  parent_.push_back(own);
  cost_.push_back(graph_.time[step]);
  const auto join = [&](int32_t other) {
    if (set_[other] < 0) {
      return;
    }
    const int32_t set = find(set_[other]);
    if (set != own) {
      parent_[set] = own;
      cost_[own] += cost_[set];
    }
  };
  for (const int32_t input : graph_.reads(step)) {
    join(input);
  }
  for (const int32_t user : graph_.users(step)) {
    join(user);
  }
  work_ += 4;
}

void Worths::set_back(int32_t step) {
  if (set_[step] >= 0) {
    double& cost = cost_[find(set_[step])];
    cost = std::max(0.0, cost - graph_.time[step]);
    set_[step] = -1;
  }
}

double Worths::around(int32_t step) {
  near_.clear();
  double sum = 0;
  const auto look = [&](int32_t other) {
    if (set_[other] < 0) {
      return;
    }
    const int32_t set = find(set_[other]);
    if (std::find(near_.begin(), near_.end(), set) == near_.end()) {
      near_.push_back(set);
      sum += cost_[set];
    }
  };
  for (const int32_t input : graph_.reads(step)) {
    look(input);
  }
  for (const int32_t user : graph_.users(step)) {
    look(user);
  }
  work_ += static_cast<int64_t>(2 * (graph_.reads(step).size() + graph_.users(step).size()));
  return sum;
}

// What it takes to have the value again where it is read next, from what the plain run has then. So the gradient that
// a skip carries past the rest of backward is dear, however cheap the step that made it.
double Worths::time_again(int32_t step, const int32_t* next) {
  double& known = time_again_[next - graph_.out.data()];
  if (known >= 0) {
    return known;
  }
  known = 0;
  ++stamp_;
  std::vector<int32_t> open{step};
  for (size_t k = 0; k < open.size() && k < kManySteps; ++k) {
    known += graph_.time[open[k]];
    for (const int32_t input : graph_.reads(open[k])) {
      if (seen_[input] != stamp_ && graph_.users(input).end()[-1] < *next) {
        seen_[input] = stamp_;
        open.push_back(input);
      }
    }
    work_ += 8;
  }
  known *= open.size() > kManySteps ? kDear * static_cast<double>(open.size()) : 1;
  return known;
}

bool Worths::is_dear(int32_t step, int32_t stage) {
  const Span users = graph_.users(step);
  const auto* next = std::lower_bound(users.begin(), users.end(), stage);
  return next != users.end() && time_again(step, next) > kDear * graph_.total_time / graph_.n;
}

double Worths::alone(int32_t step, int32_t stage, double* share) {
  const Span users = graph_.users(step);
  const auto* next = std::lower_bound(users.begin(), users.end(), stage);
  double time = graph_.time[step];
  double distance = 0;
  if (worth_.look_back) {
    distance = clock_ - last_use_[step] + 1;
  } else {
    distance = powers_[next == users.end() ? 2 * graph_.n : *next - stage + 1];
    time = next != users.end() && worth_.deep ? time_again(step, next) : time;
  }
  *share = 1 / (static_cast<double>(graph_.bytes[step]) * distance);
  return (time + 1e-12 * graph_.total_time) * *share;
}

double Worths::whole(int32_t step, int32_t stage) {
  double share = 0;
  const double own = alone(step, stage, &share);
  return own + worth_.around * around(step) * share;
}

}  // namespace encore::plan
