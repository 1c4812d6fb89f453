// Keeps time and memory of a table of recomputations up to date.
#include "plan/stages.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace encore::plan {
namespace {

/// Bytes between stages t - 1 and t where nothing is recomputed.
std::vector<double> plainly_carried(const Compact& graph) {
  std::vector<double> carried(graph.n + 2, 0);
  for (int32_t i = 0; i <= graph.n; ++i) {
    if (graph.users(i).size() > 0) {
      carried[i + 1] += static_cast<double>(graph.bytes[i]);
      carried[graph.users(i).end()[-1] + 1] -= static_cast<double>(graph.bytes[i]);
    }
  }
  std::partial_sum(carried.begin(), carried.end(), carried.begin());
  return carried;
}

}  // namespace

Stages::Stages(const Compact& graph, const Graph& source, double budget)
    : graph_(graph),
      bytes_(graph.bytes.begin(), graph.bytes.end()),
      temp_(graph.temp.begin(), graph.temp.end()),
      background_(graph.background.begin(), graph.background.end()),
      again_(graph.n + 1),
      events_(graph.n + 1),
      carried_(plainly_carried(graph), INFINITY),
      peak_(std::vector<double>(graph.n + 1, 0), budget),
      is_dirty_(graph.n + 1, 0),
      mark_(graph.n + 1, 0),
      variants_(graph.n + 1),
      form_(graph.n + 1, -1) {
  for (int32_t i = 0; i < graph.n; ++i) {
    variants_[i] = source.steps[i].variants;
  }
  for (int32_t i = 0; i <= graph.n; ++i) {
    events_[i].push_back({i, 0, true});
    for (const int32_t user : graph.users(i)) {
      events_[i].push_back({user, 1, false});
    }
  }
  for (int32_t t = 0; t <= graph.n; ++t) {
    touch(t);
  }
  settle();
}

void Stages::set_budget(double budget) {
  peak_.set_limit(budget);
}

int32_t Stages::event_at(int32_t step, int32_t t) const {
  const auto& events = events_[step];
  if (events.size() <= 16) {
    int32_t k = 0;
    while (k < static_cast<int32_t>(events.size()) && events[k].stage < t) {
      ++k;
    }
    return k;
  }
  return static_cast<int32_t>(
      std::lower_bound(events.begin(), events.end(), t, [](const Use& event, int32_t at) { return event.stage < at; }) -
      events.begin());
}

bool Stages::computed_at(int32_t t, int32_t step) const {
  return std::binary_search(again_[t].begin(), again_[t].end(), step);
}

bool Stages::carried_into(int32_t t, int32_t step) const {
  const int32_t k = event_at(step, t);
  return t > step && k < static_cast<int32_t>(events_[step].size()) && !events_[step][k].computed;
}

bool Stages::carried_out(int32_t step, int32_t t) const {
  return carried_into(t + 1, step);
}

void Stages::add(int32_t t, int32_t step) {
  do_add(t, step);
  log_.push_back({t, step, true, -1});
  settle();
}

void Stages::remove(int32_t t, int32_t step) {
  do_remove(t, step);
  log_.push_back({t, step, false, -1});
  settle();
}

void Stages::remove_useless(int32_t t, int32_t step) {
  for (const int32_t input : graph_.reads(step)) {
    const int32_t k = event_at(input, t);
    if (k == static_cast<int32_t>(events_[input].size())) {
      continue;
    }
    const Use& event = events_[input][k];
    if (event.stage == t && event.computed && event.uses == 0 && input != t && !carried_out(input, t)) {
      remove(t, input);
      remove_useless(t, input);
    }
  }
}

void Stages::rollback(size_t mark) {
  for (; log_.size() > mark; log_.pop_back()) {
    const Change change = log_.back();
    if (change.stage == kForm) {
      do_set_form(change.step, change.old_form);
    } else if (change.added) {
      do_remove(change.stage, change.step);
    } else {
      do_add(change.stage, change.step);
    }
  }
  settle();
}

void Stages::undo(std::vector<Change> changes) {
  log_ = std::move(changes);
  rollback();
}

// Values with a form are taken out of the sums before their events change, and laid in again after that: their bytes
// depend on how long a gap is. All others only change the sums where something changes.
void Stages::do_add(int32_t t, int32_t step) {
  auto& events = events_[step];
  const bool formed = form_[step] >= 0;
  if (formed) {
    lay(step, -1);
  }
  const int32_t k = event_at(step, t);
  const bool exists = k < static_cast<int32_t>(events.size()) && events[k].stage == t;
  // The carry over the border before t, if there is one, ends at the event before.
  if (!formed && k < static_cast<int32_t>(events.size()) && !events[k].computed) {
    shift(events[k - 1].stage + 1, t, -bytes_[step]);
    touch(events[k - 1].stage);
  }
  if (exists) {
    events[k].computed = true;
  } else {
    events.insert(events.begin() + k, {t, 0, true});
  }
  if (formed) {
    lay(step, 1);
  }
  auto& again = again_[t];
  again.insert(std::lower_bound(again.begin(), again.end(), step), step);
  extra_time_ += graph_.time[step];
  for (const int32_t input : graph_.reads(step)) {
    add_use(input, t);
  }
  touch(t);
}

void Stages::do_remove(int32_t t, int32_t step) {
  auto& events = events_[step];
  const bool formed = form_[step] >= 0;
  if (formed) {
    lay(step, -1);
  }
  const int32_t k = event_at(step, t);
  const bool next_carries = k + 1 < static_cast<int32_t>(events.size()) && !events[k + 1].computed;
  if (!formed && (events[k].uses > 0 || next_carries)) {
    shift(events[k - 1].stage + 1, t, bytes_[step]);
    touch(events[k - 1].stage);
  }
  if (events[k].uses > 0) {
    events[k].computed = false;
  } else {
    events.erase(events.begin() + k);
  }
  if (formed) {
    lay(step, 1);
  }
  auto& again = again_[t];
  again.erase(std::lower_bound(again.begin(), again.end(), step));
  extra_time_ -= graph_.time[step];
  for (const int32_t input : graph_.reads(step)) {
    remove_use(input, t);
  }
  touch(t);
}

void Stages::add_use(int32_t step, int32_t t) {
  auto& events = events_[step];
  const int32_t k = event_at(step, t);
  if (k < static_cast<int32_t>(events.size()) && events[k].stage == t) {
    ++events[k].uses;
    return;
  }
  const bool formed = form_[step] >= 0;
  if (formed) {
    lay(step, -1);
  } else if (k == static_cast<int32_t>(events.size()) || events[k].computed) {
    shift(events[k - 1].stage + 1, t, bytes_[step]);
    touch(events[k - 1].stage);
  }
  events.insert(events.begin() + k, {t, 1, false});
  if (formed) {
    lay(step, 1);
  }
}

void Stages::remove_use(int32_t step, int32_t t) {
  auto& events = events_[step];
  const int32_t k = event_at(step, t);
  if (--events[k].uses > 0 || events[k].computed) {
    return;
  }
  const bool formed = form_[step] >= 0;
  if (formed) {
    lay(step, -1);
  } else if (k + 1 == static_cast<int32_t>(events.size()) || events[k + 1].computed) {
    shift(events[k - 1].stage + 1, t, -bytes_[step]);
    touch(events[k - 1].stage);
  }
  events.erase(events.begin() + k);
  if (formed) {
    lay(step, 1);
  }
}

// Adds bytes to the borders first..last and to the stages between them.
void Stages::shift(int32_t first_border, int32_t last_border, double bytes) {
  if (bytes == 0) {
    return;
  }
  work_ += carried_.raise(first_border, last_border + 1, bytes) + peak_.raise(first_border, last_border, bytes);
}

void Stages::touch(int32_t t) {
  if (is_dirty_[t] == 0) {
    is_dirty_[t] = 1;
    dirty_.push_back(t);
  }
}

void Stages::settle() {
  for (const int32_t t : dirty_) {
    is_dirty_[t] = 0;
    evaluate(t);
  }
  dirty_.clear();
}

// Goes through the stage backwards, from what is carried out of it to what is carried in.
void Stages::evaluate(int32_t t) {
  ++stamp_;
  double resident = carried_.at(t + 1);
  double peak = 0;
  find_resting(t);
  for (auto it = resting_.rbegin(); it != resting_.rend(); ++it) {
    if (const Variant* variant = resting_out(*it, t)) {
      // By then step t has run, and what is in memory besides is what the next one finds.
      peak = std::max(peak, resident + bytes_[*it] + background_[t + 1] - background_[t]);
      resident += bytes_[*it] - static_cast<double>(variant->bytes);
    }
  }
  const auto& again = again_[t];
  for (auto k = static_cast<int32_t>(again.size()); k >= 0; --k) {
    const int32_t step = k == static_cast<int32_t>(again.size()) ? t : again[k];
    const Span inputs = step == t ? graph_.inputs(t) : graph_.reads(step);
    work_ += 8 + 4 * static_cast<int64_t>(inputs.size());
    if (mark_[step] != stamp_ && !carried_out(step, t)) {
      resident += bytes_[step];
    }
    for (const int32_t input : inputs) {
      if (mark_[input] != stamp_) {
        mark_[input] = stamp_;
        if (!carried_out(input, t)) {
          resident += bytes_[input];
        }
      }
    }
    peak = std::max(peak, resident + temp_[step]);
    resident -= bytes_[step];
  }
  for (auto it = resting_.rbegin(); it != resting_.rend(); ++it) {
    if (const Variant* variant = resting_in(*it, t)) {
      peak = std::max(peak, resident + static_cast<double>(variant->bytes));
      resident += static_cast<double>(variant->bytes) - bytes_[*it];
    }
  }
  peak_.set(t, peak + background_[t]);
}

}  // namespace encore::plan
