// From ops, events and memory accounts to steps with times, bytes and inputs.
#include "budget/step_model.h"

#include <algorithm>
#include <set>

namespace encore::budget {
namespace {

using tape::kNone;
using tape::OpId;
using tape::ValueId;

struct Group {
  std::vector<OpId> ops;
  std::vector<ValueId> values;
  std::set<int32_t> reads;  // other groups
  int32_t first_event = 0;
  int32_t last_event = 0;
  int32_t step = kNone;  // in the graph, once it is complete
  bool pinned = false;
};

class Builder {
 public:
  Builder(const store::Residency& residency, const Journal& journal, const std::vector<std::string>& modules)
      : residency_(residency),
        tape_(residency.tape()),
        journal_(journal),
        modules_(modules),
        group_of_value_(tape_.num_values(), kNone),
        group_of_op_(tape_.ops().size(), kNone) {}

  StepModel build() {
    form_groups();
    find_extra_background();
    for (size_t e = 0; e < journal_.events.size(); ++e) {
      add_event(static_cast<int32_t>(e));
    }
    hold_values();
    find_largest();
    model_.graph.steps.shrink_to_fit();  // models are kept for long
    model_.units.shrink_to_fit();
    return std::move(model_);
  }

 private:
  bool is_tracked(ValueId value) const { return journal_.tracked.count(tape_.value(value).storage) > 0; }

  void form_groups() {
    std::set<ValueId> asked;
    for (const Event& event : journal_.events) {
      asked.insert(event.asked.begin(), event.asked.end());
    }
    std::unordered_map<ValueId, std::vector<int32_t>> readers;
    for (size_t e = 0; e < journal_.events.size(); ++e) {
      const Event& event = journal_.events[e];
      if (event.op == kNone) {
        continue;
      }
      const tape::Op& op = tape_.ops()[static_cast<size_t>(event.op)];
      const int32_t group = group_of(op, event.op, static_cast<int32_t>(e), asked, readers);
      for (const tape::TensorArg& arg : op.tensors) {
        const int32_t from = arg.read ? group_of_value_[static_cast<size_t>(arg.value)] : kNone;
        if (group != kNone && from != kNone && from != group) {
          groups_[static_cast<size_t>(group)].reads.insert(from);
          readers[arg.value].push_back(group);
        }
      }
    }
    // By now the optimizer has changed what the values depend on, so the tape could not bring them back any more; what
    // counts is backward's time. Where a value could not be had then either, it is simply not let go.
    for (Group& group : groups_) {
      group.pinned = group.pinned || std::any_of(group.values.begin(), group.values.end(),
                                                 [&](ValueId v) { return residency_.is_constant(v); });
    }
  }

  /// The group whose values the op makes or completes, kNone if it makes none that are tracked.
  int32_t group_of(const tape::Op& op, OpId id, int32_t event, const std::set<ValueId>& asked,
                   const std::unordered_map<ValueId, std::vector<int32_t>>& readers) {
    std::vector<ValueId> made;
    for (const tape::Output& output : op.outputs) {
      const bool is_new = output.value != kNone && tape_.value(output.value).producer == id &&
                          std::find(made.begin(), made.end(), output.value) == made.end() &&
                          std::none_of(op.writes.begin(), op.writes.end(),
                                       [&](const tape::Write& write) { return write.after == output.value; });
      if (is_new && is_tracked(output.value)) {
        made.push_back(output.value);
      }
    }
    int32_t group = kNone;
    for (const tape::Write& write : op.writes) {
      const int32_t before = write.before == kNone ? kNone : group_of_value_[static_cast<size_t>(write.before)];
      if (before == kNone) {
        continue;
      }
      Group& written = groups_[static_cast<size_t>(before)];
      group_of_value_[static_cast<size_t>(write.after)] = before;
      std::replace(written.values.begin(), written.values.end(), write.before, write.after);
      // Whoever needs the older version again can't have it from the complete one.
      const auto old_readers = readers.find(write.before);
      if (asked.count(write.before) > 0 || old_readers != readers.end()) {
        written.pinned = true;
        for (const int32_t reader : old_readers == readers.end() ? std::vector<int32_t>() : old_readers->second) {
          groups_[static_cast<size_t>(reader)].pinned = true;
        }
      }
      if (group == kNone) {
        group = before;
      } else if (group != before) {
        written.pinned = groups_[static_cast<size_t>(group)].pinned = true;
      }
    }
    if (!made.empty()) {
      const bool writes_too = group != kNone;
      if (writes_too) {
        groups_[static_cast<size_t>(group)].pinned = true;
      }
      group = static_cast<int32_t>(groups_.size());
      groups_.emplace_back();
      groups_.back().first_event = event;
      groups_.back().pinned = writes_too;
      groups_.back().values = made;
      for (const ValueId value : made) {
        group_of_value_[static_cast<size_t>(value)] = group;
      }
    }
    if (group != kNone) {
      groups_[static_cast<size_t>(group)].ops.push_back(id);
      groups_[static_cast<size_t>(group)].last_event = event;
      group_of_op_[static_cast<size_t>(id)] = group;
    }
    return group;
  }

  int64_t bytes_of(const Group& group) const {
    int64_t bytes = 0;
    for (const ValueId value : group.values) {
      bytes += tape_.value(value).nbytes;
    }
    return bytes;
  }

  /// Bytes of it that the user's own code holds at the end.
  int64_t kept_of(const Group& group) const {
    int64_t bytes = 0;
    for (const ValueId value : group.values) {
      bytes += journal_.kept.count(tape_.value(value).storage) > 0 ? tape_.value(value).nbytes : 0;
    }
    return bytes;
  }

  /// A group that is completed later than it is begun is in memory all the while.
  void find_extra_background() {
    std::vector<int64_t> change(journal_.events.size() + 1, 0);
    for (const Group& group : groups_) {
      change[static_cast<size_t>(group.first_event)] += bytes_of(group);
      change[static_cast<size_t>(group.last_event)] -= bytes_of(group);
    }
    int64_t bytes = 0;
    for (size_t e = 0; e < journal_.events.size(); ++e) {
      extra_.push_back(bytes += change[e]);
    }
  }

  /// Bytes of tracked storages that the event made.
  int64_t made_by(int32_t event) {
    if (made_.empty()) {
      made_.assign(journal_.events.size(), 0);
      std::unordered_map<int32_t, int64_t> sizes;
      for (size_t v = 0; v < tape_.num_values(); ++v) {
        const tape::Value& value = tape_.value(static_cast<ValueId>(v));
        sizes[value.storage] = std::max(sizes[value.storage], value.nbytes);
      }
      for (const auto& [storage, maker] : journal_.tracked) {
        made_[static_cast<size_t>(maker)] += sizes[storage];
      }
    }
    return made_[static_cast<size_t>(event)];
  }

  /// Copies of outside tensors that the event overwrote go with the tape.
  int64_t copied_by(const Event& event) const {
    int64_t bytes = 0;
    if (event.op != kNone) {
      for (const tape::Write& write : tape_.ops()[static_cast<size_t>(event.op)].writes) {
        bytes += residency_.copy_of(write.before) ? tape_.value(write.before).nbytes : 0;
      }
    }
    return bytes;
  }

  /// What a replay of the event allocates in place of state that it must not update again.
  int64_t scratch_of(const Event& event) const {
    int64_t bytes = 0;
    if (event.op != kNone) {
      for (const tape::Write& write : tape_.ops()[static_cast<size_t>(event.op)].writes) {
        bytes += write.state ? tape_.value(write.before).nbytes : 0;
      }
    }
    return bytes;
  }

  void add_event(int32_t e) {
    const Event& event = journal_.events[static_cast<size_t>(e)];
    const auto place = static_cast<size_t>(e);
    const int64_t born = (place < journal_.births.size() ? journal_.births[place] : 0) - copied_by(event);
    model_.path.push_back(event.path);
    model_.backward.push_back(event.backward);
    for (const ValueId value : event.asked) {
      model_.asked += token_of(value);
    }
    const int64_t background = event.other_before - journal_.other_at_start + extra_[place];
    const int64_t temp = std::max<int64_t>(0, event.other_peak - event.other_before - made_by(e)) + scratch_of(event);
    double seconds = static_cast<double>(event.duration_ns) * 1e-9;
    const int32_t group = event.op == kNone ? kNone : group_of_op_[static_cast<size_t>(event.op)];
    std::vector<int32_t> inputs;
    for (const ValueId value : event.asked) {
      const int32_t from = group_of_value_[static_cast<size_t>(value)];
      if (from != kNone && groups_[static_cast<size_t>(from)].step != kNone) {
        inputs.push_back(groups_[static_cast<size_t>(from)].step);
      }
    }
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    const bool completes = group != kNone && groups_[static_cast<size_t>(group)].last_event == e;
    if (group != kNone && !completes) {
      part_seconds_[group] += seconds;  // counted with the complete unit, which is what is run again
      seconds = 0;
    }
    // Between two events that make nothing and read the same there is nothing to decide.
    if (!completes && !model_.graph.steps.empty() && model_.units.back().values.empty() &&
        model_.graph.steps.back().inputs == inputs && is_backward_step() == event.backward) {
      plan::Step& same = model_.graph.steps.back();
      same.time += seconds;
      same.temp_bytes = std::max(same.temp_bytes, background + temp - model_.background.back());
      model_.born.back().other_bytes += born;
      model_.born.back().gradient_bytes += event.backward ? born : 0;
      model_.step_of_event.push_back(static_cast<int32_t>(model_.graph.steps.size()) - 1);
      return;
    }
    plan::Step step;
    step.temp_bytes = temp;
    step.inputs = std::move(inputs);
    step.time = seconds;
    step.name = event.op == kNone ? event.node : tape_.ops()[static_cast<size_t>(event.op)].info->name;
    Unit unit;
    if (completes) {
      step.time += part_seconds_[group];
      fill_unit(groups_[static_cast<size_t>(group)], step, unit);
    }
    if (event.backward) {
      model_.backward_steps.push_back(static_cast<int32_t>(model_.graph.steps.size()));
    }
    model_.step_of_event.push_back(static_cast<int32_t>(model_.graph.steps.size()));
    model_.background.push_back(background);
    model_.born.push_back(
        {born, completes ? kept_of(groups_[static_cast<size_t>(group)]) : 0, event.backward ? born : 0});
    model_.graph.steps.push_back(std::move(step));
    model_.units.push_back(std::move(unit));
  }

  /// Whether the last step is one of a backward.
  bool is_backward_step() const {
    return !model_.backward_steps.empty() &&
           model_.backward_steps.back() + 1 == static_cast<int32_t>(model_.graph.steps.size());
  }

  void fill_unit(Group& group, plan::Step& step, Unit& unit) {
    step.bytes = bytes_of(group);
    step.name = tape_.ops()[static_cast<size_t>(group.ops.front())].info->name;
    for (const int32_t read : group.reads) {
      if (const int32_t from = groups_[static_cast<size_t>(read)].step; from != kNone) {
        step.inputs.push_back(from);
      } else {
        group.pinned = true;  // reads something that is not complete
      }
    }
    add_form(group, step);
    group.step = static_cast<int32_t>(model_.graph.steps.size());
    unit.values = group.values;
    unit.name = step.name;
    unit.module = modules_.empty() ? "" : modules_[static_cast<size_t>(group.ops.front())];
  }

  /// What the group takes when those of its values that can are in a smaller form.
  void add_form(const Group& group, plan::Step& step) const {
    plan::Variant variant;
    double seconds = 0;
    for (const ValueId value : group.values) {
      const auto packing = journal_.packings.find(value);
      if (packing == journal_.packings.end()) {
        variant.bytes += tape_.value(value).nbytes;
        continue;
      }
      variant.kind = packing->second.form;
      variant.bytes += packing->second.bytes;
      seconds += static_cast<double>(packing->second.duration_ns) * 1e-9;
    }
    if (!variant.kind.empty()) {
      variant.encode_time = variant.decode_time = seconds;  // there and back are alike
      step.variants.push_back(std::move(variant));
    }
  }

  /// Nobody can let go of what the user's own code still holds, nor of what can't be had again and is still read.
  void hold_values() {
    const auto last = static_cast<int32_t>(model_.graph.steps.size()) - 1;
    std::vector<int32_t> last_use(model_.graph.steps.size(), kNone);
    for (size_t i = 0; i < model_.graph.steps.size(); ++i) {
      for (const int32_t input : model_.graph.steps[i].inputs) {
        last_use[static_cast<size_t>(input)] = static_cast<int32_t>(i);
      }
    }
    for (const Group& group : groups_) {
      if (group.step == kNone) {
        continue;
      }
      int32_t held = kNone;
      for (const ValueId value : group.values) {
        const auto released = journal_.released.find(tape_.value(value).storage);
        held = std::max(held, released == journal_.released.end()
                                  ? last
                                  : model_.step_of_event[static_cast<size_t>(released->second)]);
      }
      model_.units[static_cast<size_t>(group.step)].user_holds_until = held;
      held = std::max(held, group.pinned ? last_use[static_cast<size_t>(group.step)] : kNone);
      if (held > group.step) {
        model_.graph.steps[static_cast<size_t>(group.step)].held_until = held;
      }
    }
  }

  void find_largest() {
    int64_t most = -1;
    for (const plan::Step& step : model_.graph.steps) {
      int64_t bytes = step.bytes + step.temp_bytes;
      for (const int32_t input : step.inputs) {
        bytes += model_.graph.steps[static_cast<size_t>(input)].bytes;
      }
      if (bytes > most) {
        most = bytes;
        model_.largest = step.name;
      }
    }
  }

  const store::Residency& residency_;
  const tape::Tape& tape_;
  const Journal& journal_;
  const std::vector<std::string>& modules_;
  std::vector<int32_t> group_of_value_;
  std::vector<int32_t> group_of_op_;
  std::vector<Group> groups_;
  std::vector<int64_t> extra_;
  std::vector<int64_t> made_;
  std::unordered_map<int32_t, double> part_seconds_;  // by group: its events so far
  StepModel model_;
};

}  // namespace

StepModel build_model(const store::Residency& residency, const Journal& journal, int64_t resting_bytes,
                      const std::vector<std::string>& modules) {
  StepModel model = Builder(residency, journal, modules).build();
  model.resting_bytes = resting_bytes;
  return model;
}

}  // namespace encore::budget
