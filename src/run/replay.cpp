// Replay: find the ops needed, then run them in tape order, freeing each value after its last use.
#include "run/replay.h"

#include <ATen/autocast_mode.h>

#include <encore/error.h>

#include "base/clock.h"
#include "run/allocator.h"

namespace encore::run {
namespace {

using tape::kNone;
using tape::Op;
using tape::OpId;
using tape::TensorArg;
using tape::Value;
using tape::ValueId;
using tape::Write;

/// A thread's state as kernels expect it below autograd, whatever backward was called under.
class PlainMode {
 public:
  PlainMode() : no_grad_(false) {}

 private:
  tape::CleanDispatch clean_;
  c10::InferenceMode no_inference_{false};
  at::AutoGradMode no_grad_;
  at::AutoDispatchBelowADInplaceOrView below_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

class Replay {
 public:
  Replay(const store::Residency& residency, const ReplayRequest& request)
      : residency_(residency), tape_(residency.tape()), request_(request) {}

  Replayed run() {
    find_ops();
    count_uses();
    const PlainMode mode;
    for (const OpId id : needed_) {
      run_op(id);
    }
    for (const ValueId target : request_.targets) {
      request_.take(target, held(target).storage);
    }
    result_.ops = static_cast<int64_t>(needed_.size());
    return result_;
  }

 private:
  struct Held {
    c10::Storage storage;
    int32_t uses = 0;   // by ops that are still to run
    bool ours = false;  // made by this replay: may be overwritten when nobody else needs it
    bool target = false;
    bool taken = false;                             // somebody else may hold it too: not to be overwritten
    std::shared_ptr<const store::Resting> resting;  // to be made whole when it is first used
  };

  Held& held(ValueId id) {
    Held& entry = held_.at(id);
    if (entry.resting) {
      entry.storage = std::exchange(entry.resting, nullptr)->whole();
      entry.ours = true;
    }
    return entry;
  }

  /// From the targets back to what is resident, without recursion: a chain may be as long as memory.
  void find_ops() {
    std::vector<ValueId> open;
    const auto need = [&](ValueId id) {
      const auto [entry, is_new] = held_.try_emplace(id);
      if (!is_new) {
        return;
      }
      entry->second.storage = residency_.resident(id);
      if (entry->second.storage) {
        return;
      }
      entry->second.resting = residency_.form(id);
      if (entry->second.resting) {
        return;
      }
      if (tape_.value(id).producer < request_.first) {
        entry->second.storage = request_.enter(id);
        return;
      }
      open.push_back(id);
    };
    std::unordered_map<OpId, bool> seen;
    for (const ValueId target : request_.targets) {
      need(target);
    }
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      const Value& value = tape_.value(id);
      const Op& op = tape_.op(value.producer);
      if (value.base != kNone) {
        need(value.base);
      }
      if (!seen.try_emplace(value.producer, true).second) {
        continue;
      }
      needed_.push_back(value.producer);
      for (const TensorArg& arg : op.tensors) {
        if (arg.read) {
          need(arg.value);
        }
      }
    }
    std::sort(needed_.begin(), needed_.end());
  }

  void count_uses() {
    for (const OpId id : needed_) {
      const Op& op = tape_.op(id);
      for_each_use(op, [&](ValueId value) { ++held_.at(value).uses; });
    }
    for (const ValueId target : request_.targets) {
      held_.at(target).target = true;
    }
  }

  template <class Visit>
  void for_each_use(const Op& op, const Visit& visit) {
    for (const TensorArg& arg : op.tensors) {
      if (arg.read) {
        visit(arg.value);
      }
    }
    for (const Write& write : op.writes) {
      if (carries_over(write)) {
        visit(write.before);
      }
    }
  }

  /// The op must work on the old bytes: they are needed for its results or for the value it writes.
  bool carries_over(const Write& write) const {
    return !write.full && write.before != kNone && held_.count(write.before) > 0 &&
           (!write.state || held_.count(write.after) > 0);
  }

  void run_op(OpId id) {
    const Op& op = tape_.op(id);
    std::unordered_map<ValueId, c10::Storage> written;
    torch::jit::Stack stack;
    call(id, [&] {
      for (const Write& write : op.writes) {
        written.emplace(write.before, writable(write));
      }
      stack = build_stack(op, written);
      if (op.random) {
        random_.enter(*op.random);
      }
      const at::AutoGradMode grad(op.grad_mode);
      world_.enter(tape_.world_of(op));
      // Where an op returns several references to its arguments, LibTorch reads them when it has dropped the arguments.
      const torch::jit::Stack alive = op.writes.size() > 1 ? stack : torch::jit::Stack();
      op.info->handle.callBoxed(stack);
    });
    bind_results(id, op, stack, written);
    for_each_use(op, [&](ValueId value) {
      Held& entry = held_.at(value);
      if (--entry.uses == 0 && !entry.target) {
        entry.storage = c10::Storage();
      }
    });
  }

  /// A storage that the op may overwrite: the old bytes themselves if nobody else needs them, or a copy, or new bytes.
  c10::Storage writable(const Write& write) {
    if (!carries_over(write)) {
      return tape::new_storage(tape_.value(write.before).nbytes);
    }
    Held& before = held(write.before);
    const bool ours_alone = before.ours && !before.target && !before.taken;
    return ours_alone ? before.storage : tape::copy_storage(before.storage);
  }

  torch::jit::Stack build_stack(const Op& op, const std::unordered_map<ValueId, c10::Storage>& written) {
    torch::jit::Stack stack(op.args.begin(), op.args.end());
    const auto tensor_of = [&](const TensorArg& arg) {
      if (arg.value == kNone) {
        return at::Tensor();
      }
      if (const auto own = written.find(arg.value); own != written.end()) {
        return arg.geometry->over(own->second);
      }
      if (!arg.read) {
        // Only the shape is looked at: no bytes are needed.
        return arg.geometry->over(c10::Storage(c10::Storage::use_byte_size_t(),
                                               static_cast<size_t>(tape_.value(arg.value).nbytes),
                                               at::DataPtr(nullptr, at::kCPU)));
      }
      return arg.geometry->over(held(arg.value).storage);
    };
    auto arg = op.tensors.begin();
    auto list = op.lists.begin();
    for (size_t i = 0; i < stack.size(); ++i) {
      if (list != op.lists.end() && list->arg == i) {
        stack[i] = list->optional ? build_list<c10::optional<at::Tensor>>(*list, arg, op.tensors.end(), tensor_of)
                                  : build_list<at::Tensor>(*list, arg, op.tensors.end(), tensor_of);
        ++list;
      } else if (arg != op.tensors.end() && arg->arg == i) {
        stack[i] = tensor_of(*arg++);
      }
    }
    return stack;
  }

  template <class Element, class Iterator, class TensorOf>
  static c10::IValue build_list(const tape::ListArg& list, Iterator& arg, Iterator end, const TensorOf& tensor_of) {
    c10::List<Element> tensors;
    tensors.resize(list.size);
    for (; arg != end && arg->arg == list.arg; ++arg) {
      tensors.set(static_cast<size_t>(arg->index), tensor_of(*arg));
    }
    return tensors;
  }

  /// Whatever goes wrong in the op, or in making room for it, is told with the op's name.
  template <class Run>
  void call(OpId id, const Run& run) {
    try {
      run();
    } catch (const Error&) {
      throw;
    } catch (const c10::Error& error) {
      throw ReplayError("replay: " + tape_.describe_op(id) +
                        " failed when run again: " + error.what_without_backtrace());
    } catch (const std::exception& error) {
      throw ReplayError("replay: " + tape_.describe_op(id) + " failed when run again: " + error.what());
    }
  }

  void bind_results(OpId id, const Op& op, const torch::jit::Stack& stack,
                    const std::unordered_map<ValueId, c10::Storage>& written) {
    size_t next = 0;
    const auto bind_output = [&](const at::Tensor& tensor) {
      if (next >= op.outputs.size()) {
        throw DeterminismError("replay: " + tape_.describe_op(id) + " gave " + std::to_string(op.outputs.size()) +
                               " tensors when it was recorded and more when run again");
      }
      const tape::Output& output = op.outputs[next++];
      if (output.value == kNone || tape_.value(output.value).producer != id) {
        return;
      }
      const bool is_written = std::any_of(op.writes.begin(), op.writes.end(),
                                          [&](const Write& write) { return write.after == output.value; });
      if (!is_written) {
        check(id, output, tensor);
        bind(output.value, tensor.storage());
      } else if (op.writes.size() == 1) {
        check(id, output, tensor);  // of several, LibTorch returns what may be anything
      }
    };
    for (const c10::IValue& result : stack) {
      if (result.isTensor()) {
        bind_output(result.toTensor());
      } else if (result.isTensorList()) {
        for (const at::Tensor& tensor : result.toTensorVector()) {
          bind_output(tensor);
        }
      }
    }
    if (next != op.outputs.size()) {
      throw DeterminismError("replay: " + tape_.describe_op(id) + " gave " + std::to_string(op.outputs.size()) +
                             " tensors when it was recorded and " + std::to_string(next) + " when run again");
    }
    for (const Write& write : op.writes) {
      bind(write.after, written.at(write.before));
    }
  }

  void check(OpId id, const tape::Output& output, const at::Tensor& tensor) {
    const bool plain = tensor.defined() && tape::is_plain(tensor);
    const bool same = plain && (!request_.check_metadata || tape::Geometry::of(tensor) == *output.geometry) &&
                      static_cast<int64_t>(tensor.storage().nbytes()) == tape_.value(output.value).nbytes;
    if (!same) {
      throw DeterminismError("replay: " + tape_.describe_op(id) + " gave " + output.geometry->text() +
                             " when it was recorded and " +
                             (plain ? tape::Geometry::of(tensor).text() : std::string("another kind of tensor")) +
                             " when run again; its shape must not depend on anything but its arguments");
    }
  }

  void bind(ValueId id, const c10::Storage& storage) {
    const auto entry = held_.find(id);
    const bool target = entry != held_.end() && entry->second.target;
    const bool taken = !target && request_.wanted && request_.wanted(id);
    if (taken) {
      request_.take(id, storage);
    }
    // What is there already stays: a state that an op updates on the side has had scratch bytes here, and who reads the
    // state afterwards reads what the op left when it was recorded.
    if (entry != held_.end() && !entry->second.storage) {
      entry->second.storage = storage;
      entry->second.ours = true;
      entry->second.taken = taken;
    }
  }

  const store::Residency& residency_;
  const tape::Tape& tape_;
  const ReplayRequest& request_;
  std::unordered_map<ValueId, Held> held_;
  std::vector<OpId> needed_;
  tape::GeneratorsThen random_;  // as they were before each op that draws
  tape::WorldGuard world_;
  Replayed result_;
};

}  // namespace

Replayed replay(const store::Residency& residency, const ReplayRequest& request) {
  const AccountScope account(Account::kReplayed);
  const int64_t start = now_ns();
  Replayed result = Replay(residency, request).run();
  result.start_ns = start;
  result.duration_ns = now_ns() - start;
  return result;
}

}  // namespace encore::run
