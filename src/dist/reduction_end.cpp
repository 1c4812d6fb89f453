// Several reductions in one process; how a step ends for the other ranks when it fails on this one; what owners send.
#include "dist/reduction.h"
#include "dist/scratch.h"

namespace encore::dist {

namespace {

/// All reductions of the process, in the order in which every rank made them.
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry;  // models may be destroyed after static destructors have run
    return *registry;
  }
  void add(Reduction* reduction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(reduction);
  }
  void remove(Reduction* reduction) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(std::remove(all_.begin(), all_.end(), reduction), all_.end());
  }
  std::vector<Reduction*> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Reduction*> all_;
};

}  // namespace

void Reduction::enlist(bool here) {
  here ? Registry::instance().add(this) : Registry::instance().remove(this);
}

std::vector<Reduction*> Reduction::all() {
  return Registry::instance().all();
}

std::shared_ptr<Reduction::Run> Reduction::open_run() const {
  auto run = run_.lock();
  return run && !run->over && run->thread == std::this_thread::get_id() ? run : nullptr;
}

void Reduction::complete_all() {
  for (Reduction* reduction : all()) {
    if (const auto run = reduction->open_run()) {
      reduction->complete(*run);
    }
  }
}

void Reduction::begin_step(bool reduces) {
  in_step_ = true;
  step_reduces_ = reduces;
  told_ = known_ = broken_ = false;
}

void Reduction::aborted() noexcept {
  if (in_step_ || channel_.is_lost()) {
    broken_ = in_step_;
    return;  // the end of the step tells the others, and why
  }
  Failure failure;
  failure.kind = FailureKind::kThrew;
  failure.text = "an exception left its backward";
  // Other models of the same backward have failed too; the other ranks complete them in this order.
  for (Reduction* reduction : all()) {
    const auto run = reduction->open_run();
    if (reduction == this || (run && !reduction->in_step_)) {
      if (run) {
        run->over = true;
      }
      const std::lock_guard<std::mutex> lock(reduction->mutex_);
      reduction->drain(failure);
    }
  }
}

bool Reduction::end_step(Failure failure) noexcept {
  if (failure.kind != FailureKind::kNone) {
    // So do the steps of other models that it leaves, of which those made before this one come first on the other
    // ranks.
    for (Reduction* reduction : all()) {
      if (reduction == this) {
        break;
      }
      const std::lock_guard<std::mutex> lock(reduction->mutex_);
      if (reduction->in_step_ && reduction->step_reduces_ && !reduction->told_ && !reduction->channel_.is_lost()) {
        reduction->drain(failure);
      }
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool wanting = step_reduces_ && !told_;
  if (wanting && failure.kind == FailureKind::kNone) {
    failure.kind = FailureKind::kThrew;
    failure.text = "the step ended without a reduced backward";
  }
  const bool failed = failure.kind != FailureKind::kNone;
  if (failed && !channel_.is_lost()) {
    if (wanting) {
      drain(failure);
    } else if (!known_) {
      failure.parameters_differ = failure.parameters_differ || told_;  // an optimizer's work, by all appearances
      untold_ = std::move(failure);
    }
  }
  in_step_ = false;
  reset();
  return !failed;
}

void Reduction::drain(const Failure& failure) noexcept {
  try {
    while (!in_flight_.empty()) {
      InFlight work = std::move(in_flight_.front());
      in_flight_.pop_front();
      channel_.wait(work.pending);
    }
    for (; next_ < layout_.buckets.size(); ++next_) {
      const auto scratch = make_scratch(static_cast<size_t>(layout_.buckets[next_].nbytes));
      Pending pending = reduce(next_, scratch.get(), scratch);
      channel_.wait(pending);
    }
    told_ = known_ = true;
    pass_verdict(failure);
  } catch (...) {
    // This rank has its own exception on the way; what the verdict says about it is for the others.
  }
  drop_gradients();
  reset();
}

Failure Reduction::take_untold() {
  Failure failure;
  std::swap(failure, untold_);
  return failure;
}

void Reduction::shard(std::vector<int> owners, std::function<void(size_t)> update) {
  owners_ = std::move(owners);
  update_ = std::move(update);
}

bool Reduction::owns(size_t parameter) const {
  return owners_.empty() || owners_[layout_.parameters[parameter].bucket] == channel_.rank();
}

void Reduction::send_parameters() {
  const at::Tensor piece = slots_.empty() ? at::empty({std::max<int64_t>(slot_bytes_, 16)}, at::kByte) : slots_[0];
  for (size_t b = 0; b < layout_.buckets.size(); ++b) {
    std::vector<at::Tensor> tensors;
    for (const size_t i : layout_.buckets[b].parameters) {
      tensors.push_back(layout_.parameters[i].tensor);
    }
    channel_.broadcast_tensors(tensors, owners_[b], piece, "sending the parameters of bucket " + std::to_string(b));
  }
}

}  // namespace encore::dist
