// Comparing two calls of one function.
#include "region/call_path.h"

namespace encore::region {

CallPath::CallPath(const tape::Tape& tape, tape::OpId first, tape::OpId last) {
  const std::lock_guard<RecursiveMutex> lock(tape.mutex());
  std::set<tape::ValueId> seen;
  for (tape::OpId id = first; id < last; ++id) {
    const tape::Op& op = tape.ops()[static_cast<size_t>(id)];
    if (op.random) {
      draws_.push_back({id - first, op.info, op.random});
    }
    for (const tape::TensorArg& arg : op.tensors) {
      if (arg.read && !op.info->is_view && tape.value(arg.value).producer < first && seen.insert(arg.value).second) {
        const tape::Value& value = tape.value(arg.value);
        const c10::StorageImpl* storage = tape.storage(value.storage).weak._unsafe_get_target();
        if (made_.count(storage) == 0) {  // else it is its own, changed by another thread
          reads_.push_back({id - first, arg.value, storage, value.fingerprint()});
        }
      }
    }
    for (const tape::Output& output : op.outputs) {
      if (output.value != tape::kNone && tape.value(output.value).producer >= first) {
        made_.insert(tape.storage(tape.value(output.value).storage).weak._unsafe_get_target());
      }
    }
  }
}

bool CallPath::same_bytes(const Read& then, const Read& now) {
  // Values of a region around the call have no fingerprint: they come back as they were.
  if (then.storage == now.storage || !then.bytes.has_value() || !now.bytes.has_value()) {
    return true;
  }
  return then.bytes->coverage == now.bytes->coverage ? then.bytes->hash == now.bytes->hash
                                                     : then.bytes->glance == now.bytes->glance;
}

std::string CallPath::difference(const tape::Tape& again, tape::OpId end, bool compare_reads) const {
  const CallPath now(again, 0, static_cast<tape::OpId>(again.ops().size()));
  auto draw = draws_.begin();
  for (const Draw& other : now.draws_) {
    // An op that draws nothing may seem to have drawn, where another thread did meanwhile.
    draw = std::find_if(draw, draws_.end(), [&](const Draw& then) { return then.info == other.info; });
    if (draw == draws_.end() || !(*draw->before == *other.before)) {
      return other.info->name +
             " found the generator in another state than when the function was first called. Another thread drew from "
             "it while the function ran, or the function took another path: give each thread a generator of its own, "
             "or "
             "use kReplay";
    }
    ++draw;
  }
  if (draw != draws_.end() && draw->op < end && draw->info->may_draw) {
    return draw->info->name +
           " drew numbers when the function was first called, and not when it was called again; the function must do "
           "the same each time";
  }
  if (!compare_reads) {
    return "";
  }
  auto read = reads_.begin();
  for (const Read& other : now.reads_) {
    if (read != reads_.end() && same_bytes(*read, other)) {
      ++read;
    } else if (!is_lazily_made(other)) {
      return "read " + again.describe_source(other.value) +
             " which the function did not read, or which was another tensor, when it was first called; what it "
             "captures must stay in place until backward, or be passed as an argument";
    }
  }
  return read == reads_.end() || read->op >= end
             ? ""
             : "a tensor that the function read when it was first called was not read when it was called again; what "
               "it captures must stay in place until backward, or be passed as an argument";
}

}  // namespace encore::region
