// One pass over a schedule with a running sum of bytes.
#include <encore/plan/simulate.h>

#include <algorithm>
#include <string>
#include <vector>

#include <encore/error.h>

namespace encore::plan {
namespace {

constexpr int32_t kAbsent = -2;
constexpr int32_t kFull = -1;  // Variants are 0, 1, ...

class Run {
 public:
  explicit Run(const Graph& graph) : graph_(graph), form_(graph.steps.size(), kAbsent), seen_(graph.steps.size(), 0) {}

  void apply(const Op& op) {
    if (op.step < 0 || static_cast<size_t>(op.step) >= graph_.steps.size()) {
      refuse("there is no step " + std::to_string(op.step));
    }
    const Step& step = graph_.steps[op.step];
    int32_t& form = form_[op.step];
    switch (op.kind) {
      case OpKind::kCompute:
        need(form == kAbsent, op, "is there already");
        for (const int32_t input : step.inputs) {
          need(form_[input] == kFull, op, "reads a value that is not there", input);
        }
        need(seen_[op.step] == 0 || next_ > step.held_until, op, "is held and can't have been dropped");
        resident_ += step.bytes;
        reach(resident_ + step.temp_bytes, step.time);
        form = kFull;
        if (seen_[op.step] == 0) {
          seen_[op.step] = 1;
          next_ = std::max(next_, op.step + 1);
        }
        ++cost_.computes;
        break;
      case OpKind::kDrop:
        need(form != kAbsent, op, "is not there to be dropped");
        need(next_ > step.held_until, op, "is held and can't be dropped yet");
        resident_ -= form == kFull ? step.bytes : step.variants[form].bytes;
        form = kAbsent;
        break;
      case OpKind::kEncode:
        need(form == kFull, op, "is not there to be encoded");
        need(next_ > step.held_until, op, "is held and can't be encoded yet");
        need(op.variant >= 0 && static_cast<size_t>(op.variant) < step.variants.size(), op, "has no such variant");
        reach(resident_ + step.variants[op.variant].bytes, step.variants[op.variant].encode_time);
        resident_ += step.variants[op.variant].bytes - step.bytes;
        form = op.variant;
        break;
      case OpKind::kDecode:
        need(form >= 0, op, "is not encoded");
        reach(resident_ + step.bytes, step.variants[form].decode_time);
        resident_ += step.bytes - step.variants[form].bytes;
        form = kFull;
        break;
    }
    ++at_;
  }

  Cost finish() {
    for (size_t i = 0; i < seen_.size(); ++i) {
      if (seen_[i] == 0) {
        throw InvalidArgument("schedule: step " + std::to_string(i) + " is never computed");
      }
    }
    for (const int32_t i : graph_.outputs) {
      if (form_[i] != kFull) {
        throw InvalidArgument("schedule: output " + std::to_string(i) + " is not there at the end");
      }
    }
    return cost_;
  }

 private:
  void reach(int64_t bytes, double time) {
    const int64_t background =
        next_ < static_cast<int32_t>(graph_.steps.size()) ? graph_.steps[next_].background_bytes : 0;
    cost_.peak_bytes = std::max(cost_.peak_bytes, bytes + background);
    cost_.time += time;
  }
  void need(bool condition, const Op& op, const char* what, int32_t other = -1) const {
    if (!condition) {
      refuse("step " + std::to_string(op.step) + " ('" + graph_.steps[op.step].name + "') " + what +
             (other < 0 ? "" : ": step " + std::to_string(other)));
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument("schedule: op " + std::to_string(at_) + ": " + what);
  }

  const Graph& graph_;
  std::vector<int32_t> form_;
  std::vector<char> seen_;
  int64_t resident_ = 0;
  int32_t next_ = 0;  // The step that is first computed next.
  int64_t at_ = 0;
  Cost cost_;
};

}  // namespace

Cost simulate(const Graph& graph, const Schedule& schedule) {
  Run run(graph);
  for (const Op& op : schedule) {
    run.apply(op);
  }
  return run.finish();
}

}  // namespace encore::plan
