// Smaller resting forms in a table of recomputations, and the way from a table to a schedule.
#include <algorithm>

#include "plan/stages.h"

namespace encore::plan {

// Adds (sign 1) or takes away (-1) all gaps of a value in its present form.
void Stages::lay(int32_t step, double sign) {
  const auto& events = events_[step];
  const Variant* variant = form_[step] < 0 ? nullptr : &variants_[step][form_[step]];
  for (size_t k = 1; k < events.size(); ++k) {
    if (events[k].computed) {
      continue;
    }
    const int32_t from = events[k - 1].stage;
    const int32_t to = events[k].stage;
    const bool rests = variant != nullptr && may_rest(step, from, to);
    shift(from + 1, to, sign * (rests ? static_cast<double>(variant->bytes) : bytes_[step]));
    extra_time_ += rests ? sign * (variant->encode_time + variant->decode_time) : 0;
    touch(from);
    touch(to);
  }
}

bool Stages::may_rest(int32_t step, int32_t from, int32_t to) const {
  constexpr int32_t kRest = 4;
  return to - from >= kRest && from >= graph_.held_until[step];
}

void Stages::set_form(int32_t step, int32_t variant) {
  log_.push_back({kForm, step, false, form_[step]});
  do_set_form(step, variant);
  settle();
}

void Stages::do_set_form(int32_t step, int32_t variant) {
  lay(step, -1);
  formed_ += static_cast<int32_t>(variant >= 0) - static_cast<int32_t>(form_[step] >= 0);
  form_[step] = variant;
  lay(step, 1);
}

// The form in which the value leaves stage t, in which it has an event, if it doesn't leave as itself.
const Variant* Stages::resting_out(int32_t step, int32_t t) const {
  const int32_t k = event_at(step, t + 1);
  const auto& events = events_[step];
  const bool rests = form_[step] >= 0 && k < static_cast<int32_t>(events.size()) && !events[k].computed &&
                     may_rest(step, events[k - 1].stage, events[k].stage);
  return rests ? &variants_[step][form_[step]] : nullptr;
}

const Variant* Stages::resting_in(int32_t step, int32_t t) const {
  const int32_t k = event_at(step, t);
  const auto& events = events_[step];
  const bool rests = form_[step] >= 0 && k > 0 && k < static_cast<int32_t>(events.size()) && !events[k].computed &&
                     may_rest(step, events[k - 1].stage, events[k].stage);
  return rests ? &variants_[step][form_[step]] : nullptr;
}

// Collects the steps of stage t, computed or read, that have a form.
void Stages::find_resting(int32_t t) {
  resting_.clear();
  if (formed_ == 0) {
    return;
  }
  const auto add = [&](int32_t step) {
    if (form_[step] >= 0) {
      resting_.push_back(step);
    }
    for (const int32_t input : step == t ? graph_.inputs(t) : graph_.reads(step)) {
      if (form_[input] >= 0) {
        resting_.push_back(input);
      }
    }
  };
  for (const int32_t step : again_[t]) {
    add(step);
  }
  add(t);
  std::sort(resting_.begin(), resting_.end());
  resting_.erase(std::unique(resting_.begin(), resting_.end()), resting_.end());
}

void Stages::load(const Table& table) {
  for (int32_t step = 0; step <= graph_.n; ++step) {
    if (form_[step] != table.form[step]) {
      do_set_form(step, table.form[step]);
    }
  }
  for (int32_t t = 0; t <= graph_.n; ++t) {
    const std::vector<int32_t> now = again_[t];
    for (const int32_t step : now) {
      if (!std::binary_search(table.again[t].begin(), table.again[t].end(), step)) {
        do_remove(t, step);
      }
    }
    for (const int32_t step : table.again[t]) {
      if (!computed_at(t, step)) {
        do_add(t, step);
      }
    }
  }
  settle();
  log_.clear();
}

Schedule Stages::schedule() {
  Schedule schedule;
  std::vector<int32_t> last(graph_.n + 1, -1);  // Position in the stage of the last use; computations count too.
  for (int32_t t = 0; t <= graph_.n; ++t) {
    std::vector<int32_t> ops = again_[t];
    ops.push_back(t);
    const auto inputs = [&](int32_t step) { return step == t ? graph_.inputs(t) : graph_.reads(step); };
    for (int32_t k = 0; k < static_cast<int32_t>(ops.size()); ++k) {
      last[ops[k]] = k;
      for (const int32_t input : inputs(ops[k])) {
        last[input] = k;
      }
    }
    if (t == graph_.n) {
      ops.pop_back();
    }
    find_resting(t);
    for (const int32_t step : resting_) {
      if (resting_in(step, t) != nullptr) {
        schedule.push_back({OpKind::kDecode, step, 0});
      }
    }
    for (int32_t k = 0; k < static_cast<int32_t>(ops.size()); ++k) {
      schedule.push_back({OpKind::kCompute, ops[k], 0});
      const auto drop_after = [&](int32_t step) {
        if (last[step] == k && !carried_out(step, t)) {
          schedule.push_back({OpKind::kDrop, step, 0});
          last[step] = -1;
        }
      };
      for (const int32_t input : inputs(ops[k])) {
        drop_after(input);
      }
      drop_after(ops[k]);
    }
    for (const int32_t step : resting_) {
      if (resting_out(step, t) != nullptr) {
        schedule.push_back({OpKind::kEncode, step, form_[step]});
      }
    }
  }
  return schedule;
}

}  // namespace encore::plan
