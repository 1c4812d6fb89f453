// From one parameter to the others.
#include "budget/foresight.h"

#include <algorithm>

namespace encore::budget {
namespace {

/// How many temporaries as large as a parameter LibTorch's optimizers need beside so many tensors of zeros: Adam (two)
/// takes two, RMSprop (one) takes one. SGD, which clones, takes none.
int64_t temporaries_beside(int64_t zeros) {
  return std::min<int64_t>(zeros, 2);
}

}  // namespace

void Foresight::between_events(int64_t live_bytes, bool in_backward) {
  if (in_backward) {
    live_after_backward_ = live_bytes;
    after_backward_ = true;
    parameters_.clear();
    of_storage_.clear();
    peak_ = 0;
  }
  if (const int64_t written = undo_.written_bytes(); written != written_bytes_) {
    temporaries_bytes_ = std::max(temporaries_bytes_, peak_ - live_bytes);
    largest_written_bytes_ = std::max(largest_written_bytes_, written - written_bytes_);
    written_bytes_ = written;
    live_after_write_ = live_bytes;
    peak_ = 0;
  }
}

void Foresight::look_at_parameters(const tape::Tape& tape) {
  std::unordered_map<const c10::StorageImpl*, int32_t> places;
  for (int32_t i = 0; i < tape.num_storages(); ++i) {
    places.emplace(tape.storage(i).weak._unsafe_get_target(), i);
  }
  // Backward comes to them the other way round, and to those of two branches in whatever order.
  std::vector<Undo::LeafBytes> leaves = undo_.leaves();
  std::reverse(leaves.begin(), leaves.end());
  const auto place_of = [&](const Undo::LeafBytes& leaf) {
    const auto place = places.find(leaf.storage);
    return place == places.end() ? tape.num_storages() : place->second;
  };
  std::stable_sort(leaves.begin(), leaves.end(),
                   [&](const Undo::LeafBytes& a, const Undo::LeafBytes& b) { return place_of(a) < place_of(b); });
  for (const Undo::LeafBytes& leaf : leaves) {
    of_storage_[leaf.storage] = parameters_.size();
    of_storage_[leaf.gradient] = parameters_.size();
    parameters_.push_back(leaf.nbytes);
  }
  of_storage_.erase(nullptr);
  current_ = parameters_.size();
}

void Foresight::find_parameter(const tape::Tape& tape, const tape::PendingOp& op) {
  for (const tape::TensorArg& arg : op.tensors) {
    const c10::StorageImpl* storage =
        arg.value == tape::kNone ? nullptr : tape.storage(tape.value(arg.value).storage).weak._unsafe_get_target();
    const auto found = of_storage_.find(storage);
    if (found != of_storage_.end() && found->second != current_) {
      current_ = found->second;
      zeros_ = clones_ = 0;
    }
  }
}

int64_t Foresight::bytes_to_come(const tape::Tape& tape, const tape::PendingOp& op) {
  if (!after_backward_ || op.grad_mode) {
    return 0;
  }
  if (parameters_.empty()) {
    look_at_parameters(tape);
  }
  find_parameter(tape, op);
  if (current_ == parameters_.size()) {
    return 0;
  }
  const int64_t own_bytes = parameters_[current_];
  const bool is_like_it =
      !op.tensors.empty() && op.tensors[0].value != tape::kNone && tape.value(op.tensors[0].value).nbytes == own_bytes;
  const bool makes_zeros = is_like_it && op.info->name == "aten::zeros_like";
  const bool clones = is_like_it && op.info->name == "aten::clone";
  zeros_ += makes_zeros ? 1 : 0;
  clones_ += clones ? 1 : 0;
  // AdamW has written to its first parameter by then.
  const bool is_first = undo_.written_bytes() == 0 || undo_.written_bytes() == own_bytes;
  // After one tensor of zeros another one may follow: whether it does shows with the next op.
  const bool is_known = clones || (makes_zeros ? zeros_ > 1 : zeros_ == 1);
  if (!is_first || !is_known) {
    return 0;
  }
  const int64_t own_temporaries = temporaries_beside(zeros_) * own_bytes;
  int64_t most = own_temporaries;
  int64_t state = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (i != current_) {
      state += (zeros_ + clones_) * parameters_[i];
      most = std::max(most, state + temporaries_beside(zeros_) * parameters_[i]);
    }
  }
  state_bytes_ = state + (zeros_ + clones_) * own_bytes;
  const bool makes_temporary = !makes_zeros && !clones && op.writes.empty();
  return makes_temporary ? most - own_temporaries : most;
}

int64_t Foresight::needed_bytes(int64_t live_bytes, int64_t nbytes) const {
  if (written_bytes_ == 0) {
    // Temporaries of an optimizer that has its state since an earlier step are as large, and say nothing.
    const bool has_state = zeros_ + clones_ > 0 && live_after_backward_ > 0 &&
                           live_bytes + nbytes - live_after_backward_ >= undo_.largest_parameter_bytes();
    return has_state ? live_after_backward_ + undo_.parameter_bytes() : 0;
  }
  const double for_each =
      static_cast<double>(live_after_write_ - live_after_backward_) / static_cast<double>(written_bytes_);
  const double temporaries = static_cast<double>(temporaries_bytes_) / static_cast<double>(largest_written_bytes_);
  return live_after_backward_ +
         static_cast<int64_t>(for_each * static_cast<double>(undo_.parameter_bytes()) +
                              temporaries * static_cast<double>(undo_.largest_unwritten_bytes()));
}

}  // namespace encore::budget
