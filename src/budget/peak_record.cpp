// Runs a schedule twice: to find its peak, and to see what is there then.
#include "budget/peak_record.h"

namespace encore::budget {
namespace {

constexpr int32_t kAbsent = -2;
constexpr int32_t kWhole = -1;

/// A schedule as it goes: which values are resident, and in which form.
class Walk {
 public:
  explicit Walk(const plan::Graph& graph) : graph_(graph), form_(graph.steps.size(), kAbsent) {}

  /// Bytes in memory while `op` runs: what is resident, with what it makes, and what it needs besides.
  int64_t begin(const plan::Op& op) {
    const auto index = static_cast<size_t>(op.step);
    const plan::Step& step = graph_.steps[index];
    scratch_ = 0;
    if (op.kind == plan::OpKind::kCompute) {
      scratch_ = step.temp_bytes;
      resident_ += step.bytes;
      form_[index] = kWhole;
    } else if (op.kind == plan::OpKind::kEncode) {
      scratch_ = step.variants[static_cast<size_t>(op.variant)].bytes;
    } else if (op.kind == plan::OpKind::kDecode) {
      scratch_ = step.bytes;
    }
    background_ = next_ < graph_.steps.size() ? graph_.steps[next_].background_bytes : 0;
    return resident_ + scratch_ + background_;
  }

  void end(const plan::Op& op) {
    const auto index = static_cast<size_t>(op.step);
    const plan::Step& step = graph_.steps[index];
    switch (op.kind) {
      case plan::OpKind::kCompute:
        seconds_ += step.time;
        next_ = std::max(next_, index + 1);
        break;
      case plan::OpKind::kDrop:
        resident_ -= bytes(index);
        form_[index] = kAbsent;
        break;
      case plan::OpKind::kEncode:
      case plan::OpKind::kDecode: {
        const bool packs = op.kind == plan::OpKind::kEncode;
        const auto& variant = step.variants[static_cast<size_t>(packs ? op.variant : form_[index])];
        seconds_ += packs ? variant.encode_time : variant.decode_time;
        resident_ -= bytes(index);
        form_[index] = packs ? op.variant : kWhole;
        resident_ += bytes(index);
        break;
      }
    }
  }

  int64_t bytes(size_t index) const {
    const plan::Step& step = graph_.steps[index];
    return form_[index] == kAbsent  ? 0
           : form_[index] == kWhole ? step.bytes
                                    : step.variants[static_cast<size_t>(form_[index])].bytes;
  }
  std::string kind(size_t index) const {
    return form_[index] < 0 ? "kept"
                            : "packed as " + graph_.steps[index].variants[static_cast<size_t>(form_[index])].kind;
  }
  int64_t scratch() const { return scratch_; }
  int64_t background() const { return background_; }
  /// The step that runs for the first time now, or is the next to.
  int32_t stage() const { return static_cast<int32_t>(next_); }
  double seconds() const { return seconds_; }

 private:
  const plan::Graph& graph_;
  std::vector<int32_t> form_;
  size_t next_ = 0;  // the first step that has not run
  int64_t resident_ = 0;
  int64_t scratch_ = 0;
  int64_t background_ = 0;
  double seconds_ = 0;
};

/// By step: whether the user's own code holds its value when step `now` runs, and will not use it any more.
std::vector<bool> held_in_vain(const StepModel& model, int32_t now) {
  std::vector<bool> held(model.graph.steps.size());
  for (size_t i = 0; i < held.size(); ++i) {
    held[i] = static_cast<int32_t>(i) < now && model.units[i].user_holds_until >= now;
  }
  std::vector<bool> backward(held.size());
  for (const int32_t node : model.backward_steps) {
    backward[static_cast<size_t>(node)] = true;
  }
  for (auto i = static_cast<size_t>(now); i < held.size(); ++i) {
    for (const int32_t input : model.graph.steps[i].inputs) {
      held[static_cast<size_t>(input)] = held[static_cast<size_t>(input)] && backward[i];
    }
  }
  return held;
}

}  // namespace

report::LivePeak live_at_peak(const StepModel& model, const plan::Graph& graph, const plan::Schedule& schedule) {
  size_t where = 0;
  int64_t peak = -1;
  Walk first(graph);
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (const int64_t now = first.begin(schedule[i]); now > peak && schedule[i].kind != plan::OpKind::kDrop) {
      peak = now;
      where = i;
    }
    first.end(schedule[i]);
  }
  report::LivePeak live;
  if (schedule.empty()) {
    return live;
  }
  Walk walk(graph);
  for (size_t i = 0; i < where; ++i) {
    walk.begin(schedule[i]);
    walk.end(schedule[i]);
  }
  walk.begin(schedule[where]);
  const auto running = static_cast<size_t>(schedule[where].step);
  live.during = graph.steps[running].name;
  live.seconds = walk.seconds();
  const auto add = [&](size_t index, int64_t bytes, const std::string& kind) {
    const Unit* unit = index < model.units.size() ? &model.units[index] : nullptr;
    if (bytes > 0) {
      const bool named = unit != nullptr && !unit->name.empty();
      live.parts.push_back(
          {named ? unit->name : graph.steps[index].name, unit != nullptr ? unit->module : "", bytes, kind});
    }
  };
  const std::vector<bool> held = held_in_vain(model, walk.stage());
  for (size_t index = 0; index < graph.steps.size(); ++index) {
    add(index, walk.bytes(index), held[index] ? "held" : walk.kind(index));
  }
  add(running, walk.scratch(), "scratch");
  if (walk.background() > 0) {
    live.parts.push_back({"what no plan can drop", "", walk.background(), "outside"});
  }
  return live;
}

}  // namespace encore::budget
