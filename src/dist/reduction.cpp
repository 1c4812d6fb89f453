// Hooks, buckets on their way, and what happens at the end of a backward.
#include "dist/reduction.h"

#include <ATen/Functions.h>
#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "dist/scratch.h"

namespace encore::dist {

class Reduction::Hook final : public torch::autograd::FunctionPostHook {
 public:
  Hook(Reduction& reduction, size_t parameter) : reduction_(reduction), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    reduction_.on_gradient(parameter_);
    return outputs;
  }

 private:
  Reduction& reduction_;
  size_t parameter_;
};

namespace {

/// For the largest bucket that takes a slot, and for buffers, which go through one.
int64_t slot_bytes_for(const Layout& layout, const DataParallelOptions& options) {
  int64_t buffers = 0;
  for (const at::Tensor& buffer : layout.buffers) {
    buffers += options.sync_buffers ? static_cast<int64_t>(buffer.nbytes()) + 16 : 0;
  }
  return (std::max(layout.slot_bytes, std::min(buffers, options.bucket_bytes)) + 15) / 16 * 16;
}

/// Gloo holds two segments of what it reduces, of a MiB at most, on each of the two threads that c10d gives a group.
int64_t scratch_bytes_for(const Layout& layout, int ranks) {
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  if (ranks == 1) {
    return 0;
  }
  std::vector<int64_t> segments;
  for (const Bucket& bucket : layout.buckets) {
    const auto size = static_cast<int64_t>(c10::elementSize(bucket.type));
    segments.push_back((std::min((bucket.nbytes + 2 * ranks - 1) / (2 * ranks), kMostBytes) + size - 1) / size * size);
  }
  std::sort(segments.rbegin(), segments.rend());
  return 2 * (segments[0] + (segments.size() > 1 ? segments[1] : 0));
}

}  // namespace

Reduction::Reduction(Layout layout, std::shared_ptr<RankGroup::Impl> group, const DataParallelOptions& options)
    : layout_(std::move(layout)),
      channel_(std::move(group)),
      in_flight_limit_(options.in_flight),
      slot_bytes_(slot_bytes_for(layout_, options)),
      scratch_bytes_(scratch_bytes_for(layout_, channel_.size())),
      sync_buffers_(options.sync_buffers),
      scale_(at::native::wrapped_scalar_tensor(1. / channel_.size())) {
  agree(channel_, layout_,
        "buckets of " + std::to_string(options.bucket_bytes) + " bytes, " + std::to_string(options.in_flight) +
            " in flight, buffers " + (options.sync_buffers ? "synchronised" : "left alone"));
  broadcast_all(0);
  used_.assign(layout_.parameters.size(), false);
  reset();
  for (size_t i = 0; i < layout_.parameters.size(); ++i) {
    const at::Tensor& tensor = layout_.parameters[i].tensor;
    if (tensor.requires_grad() && tensor.numel() > 0) {
      // The edge keeps the node, which its parameter holds only weakly, until the hook is off.
      auto edge = torch::autograd::impl::gradient_edge(tensor);
      const auto key = edge.function->add_post_hook(std::make_unique<Hook>(*this, i));
      hooks_.emplace_back(std::move(edge), key);
    }
  }
  enlist(true);
}

Reduction::~Reduction() {
  enlist(false);
  for (const auto& [edge, key] : hooks_) {
    edge.function->del_post_hook(key);
  }
}

void Reduction::reset() {
  arrived_.assign(layout_.parameters.size(), false);
  waiting_for_.clear();
  for (const Bucket& bucket : layout_.buckets) {
    waiting_for_.push_back(bucket.parameters.size());
  }
  next_ = 0;
  late_.clear();
  in_flight_.clear();
  slot_taken_.assign(slots_.size(), false);
  updated_ = false;
  run_.reset();
  if (!in_step_) {
    free_slots();
  }
}

void Reduction::make_slots() {
  while (slot_bytes_ > 0 && slots_.size() < static_cast<size_t>(in_flight_limit_)) {
    slots_.push_back(at::empty({slot_bytes_}, at::kByte));
  }
  if (!scratch_.defined() && scratch_bytes_ > 0) {
    scratch_ = at::empty({scratch_bytes_}, at::kByte);
  }
  slot_taken_.assign(slots_.size(), false);
}

void Reduction::free_slots() {
  scratch_.reset();
  slots_.clear();
  slot_taken_.clear();
}

void Reduction::broadcast_all(int from) {
  const at::Tensor piece =
      slots_.empty() ? at::empty({std::max<int64_t>(slot_bytes_, int64_t{1} << 16)}, at::kByte) : slots_[0];
  channel_.broadcast_tensors(layout_.tensors(), from, piece, "sending parameters and buffers");
}

void Reduction::on_gradient(size_t parameter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A node may have been given nothing, as by a custom function.
  used_[parameter] = used_[parameter] || layout_.parameters[parameter].tensor.grad().defined();
  if (suspended()) {
    return;
  }
  auto run = run_.lock();
  if (!run) {
    begin_run();
  }
  if (!arrived_[parameter]) {
    arrived_[parameter] = true;
    --waiting_for_[layout_.parameters[parameter].bucket];
    launch_ready(all().size() == 1);
  }
}

void Reduction::begin_run() {
  if (in_step_ && (told_ || broken_ || !step_reduces_)) {
    throw ScopeError(broken_ ? "dist: a backward of this step has thrown; end the step"
                     : told_ ? "dist: a second reduced backward in one step; put all but the last under no_sync()"
                             : "dist: a reduced backward in a step that began under no_sync()");
  }
  make_slots();
  const auto run = std::make_shared<Run>(*this);
  run_ = run;
  torch::autograd::Engine::get_default_engine().queue_callback([run] {
    if (!run->over) {
      complete_all();
    }
  });
}

void Reduction::require_reducible(const Parameter& parameter, const at::Tensor& grad) {
  if (grad.defined() && (grad.layout() != at::kStrided || grad.requires_grad())) {
    throw InvalidArgument("dist: the gradient of '" + parameter.name + "' " +
                          (grad.requires_grad() ? "has a graph of its own (create_graph)" : "is sparse") +
                          "; only plain dense gradients can be reduced");
  }
}

at::Tensor Reduction::place_in(void* data, const Parameter& parameter) const {
  const at::Tensor& tensor = parameter.tensor;
  auto* at = static_cast<char*>(data) + parameter.offset * static_cast<int64_t>(tensor.element_size());
  const at::TensorOptions options(tensor.scalar_type());
  return parameter.keeps_strides ? at::from_blob(at, tensor.sizes(), tensor.strides(), options)
                                 : at::from_blob(at, tensor.sizes(), options);
}

/// The program may have dropped what came under no_sync().
void Reduction::forget_dropped(size_t parameter) {
  used_[parameter] = used_[parameter] && layout_.parameters[parameter].tensor.grad().defined();
}

Pending Reduction::reduce(size_t bucket, void* data, std::shared_ptr<const void> memory) {
  const Bucket& which = layout_.buckets[bucket];
  std::string name = "reducing bucket " + std::to_string(bucket);
  return owners_.empty()
             ? channel_.allreduce(data, which.count, which.type, std::move(memory), std::move(name))
             : channel_.reduce(data, which.count, which.type, owners_[bucket], std::move(memory), std::move(name));
}

void Reduction::launch_ready(bool may_wait) {
  while (next_ < layout_.buckets.size() && waiting_for_[next_] == 0 &&
         (may_wait || layout_.buckets[next_].alone || has_free_slot())) {
    launch(next_++);
  }
}

bool Reduction::has_free_slot() {
  const auto is_free = [&] { return std::find(slot_taken_.begin(), slot_taken_.end(), false) != slot_taken_.end(); };
  while (!is_free() && in_flight_.front().pending.work().isCompleted()) {
    finish_first();
  }
  return is_free();
}

void Reduction::launch(size_t bucket) {
  const at::NoGradGuard no_grad;
  const Bucket& which = layout_.buckets[bucket];
  if (which.alone) {
    launch_alone(bucket);
    return;
  }
  const int slot = free_slot();
  slot_taken_[static_cast<size_t>(slot)] = true;
  const at::Tensor& memory = slots_[static_cast<size_t>(slot)];
  for (const size_t i : which.parameters) {
    const Parameter& parameter = layout_.parameters[i];
    const at::Tensor& grad = parameter.tensor.grad();
    require_reducible(parameter, grad);
    forget_dropped(i);
    at::Tensor place = place_in(memory.data_ptr(), parameter);
    if (grad.defined()) {
      at::mul_out(place, grad, scale_);
    } else {
      place.zero_();
    }
  }
  in_flight_.push_back({bucket, slot, {}, reduce(bucket, memory.data_ptr(), std::make_shared<at::Tensor>(memory))});
}

void Reduction::launch_alone(size_t bucket) {
  const size_t i = layout_.buckets[bucket].parameters[0];
  const Parameter& parameter = layout_.parameters[i];
  at::Tensor grad = parameter.tensor.grad();
  require_reducible(parameter, grad);
  forget_dropped(i);
  const bool suits = used_[i] && grad.scalar_type() == parameter.tensor.scalar_type() &&
                     (parameter.keeps_strides ? grad.strides() == parameter.tensor.strides() : grad.is_contiguous());
  at::Tensor target = grad;
  if (suits) {
    target.mul_(scale_);
  } else {
    target = parameter.keeps_strides
                 ? at::empty_strided(parameter.tensor.sizes(), parameter.tensor.strides(),
                                     at::TensorOptions(parameter.tensor.scalar_type()))
                 : at::empty(parameter.tensor.sizes(), at::TensorOptions(parameter.tensor.scalar_type()));
    if (grad.defined()) {
      at::mul_out(target, grad, scale_);
    } else {
      target.zero_();
    }
  }
  Pending pending = reduce(bucket, target.data_ptr(), std::make_shared<at::Tensor>(target));
  in_flight_.push_back({bucket, -1, std::move(target), std::move(pending)});
}

int Reduction::free_slot() {
  while (true) {
    const auto free = std::find(slot_taken_.begin(), slot_taken_.end(), false);
    if (free != slot_taken_.end()) {
      return static_cast<int>(free - slot_taken_.begin());
    }
    finish_first();
  }
}

void Reduction::finish_first() {
  const at::NoGradGuard no_grad;
  InFlight work = std::move(in_flight_.front());
  in_flight_.pop_front();
  channel_.wait(work.pending);
  for (const size_t i : layout_.buckets[work.bucket].parameters) {
    const bool own = work.slot < 0;
    finish_parameter(
        i, own ? work.target : place_in(slots_[static_cast<size_t>(work.slot)].data_ptr(), layout_.parameters[i]), own);
  }
  if (work.slot >= 0) {
    slot_taken_[static_cast<size_t>(work.slot)] = false;
  }
}

/// `own`: `reduced` is memory of its own, not a slot's.
void Reduction::finish_parameter(size_t i, const at::Tensor& reduced, bool own) {
  const at::Tensor& tensor = layout_.parameters[i].tensor;
  if (!owns(i)) {
    if (used_[i]) {
      tensor.mutable_grad().reset();
    }
    return;
  }
  if (!used_[i]) {
    late_.emplace_back(i, own ? reduced : reduced.clone());
    return;
  }
  at::Tensor& grad = tensor.mutable_grad();
  if (!grad.is_same(reduced)) {
    grad.copy_(reduced);
  }
  if (update_) {
    updated_ = true;
    update_(i);
    grad.reset();
  }
}

void Reduction::complete(Run& run) {
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    for (size_t& waiting : waiting_for_) {
      waiting = 0;
    }
    launch_ready(true);
    while (!in_flight_.empty()) {
      finish_first();
    }
    told_ = run.over = true;
    pass_verdict({});
    apply_late();
    if (update_) {
      send_parameters();
    }
    if (sync_buffers_ && !layout_.buffers.empty()) {
      channel_.broadcast_tensors(layout_.buffers, 0, slots_[0], "sending buffers");
    }
    ++reduced_backwards_;
    used_.assign(used_.size(), false);
    reset();
  } catch (...) {
    if (run.over || channel_.is_lost()) {
      // All know, or nobody can be told.
      told_ = known_ = run.over = true;
      drop_gradients();
      reset();
    }
    throw;
  }
}

void Reduction::pass_verdict(Failure mine) {
  mine.parameters_differ = mine.parameters_differ || updated_;
  const size_t parameters = layout_.parameters.size();
  const auto numbers = mine.numbers();
  const auto ranks = static_cast<size_t>(channel_.size());
  const auto sum = std::make_shared<std::vector<int64_t>>(parameters + ranks * Failure::kNumbers);
  std::copy(used_.begin(), used_.end(), sum->begin());
  std::copy(numbers.begin(), numbers.end(),
            sum->begin() +
                static_cast<std::ptrdiff_t>(parameters + static_cast<size_t>(channel_.rank()) * Failure::kNumbers));
  Pending pending =
      channel_.allreduce(sum->data(), static_cast<int64_t>(sum->size()), at::kLong, sum, "the verdict of a backward");
  channel_.wait(pending);
  used_by_somebody_.assign(parameters, false);
  for (size_t i = 0; i < parameters; ++i) {
    used_by_somebody_[i] = (*sum)[i] > 0;
  }
  std::vector<std::vector<int64_t>> rows;
  for (auto at = sum->begin() + static_cast<std::ptrdiff_t>(parameters); at != sum->end(); at += Failure::kNumbers) {
    rows.emplace_back(at, at + Failure::kNumbers);
  }
  judge(channel_, rows, mine, "the verdict of a backward");
}

void Reduction::apply_late() {
  const at::NoGradGuard no_grad;
  for (const auto& [i, reduced] : late_) {
    if (!used_by_somebody_[i]) {
      continue;  // a parameter that nobody used keeps what it has
    }
    at::Tensor& grad = layout_.parameters[i].tensor.mutable_grad();
    if (grad.defined()) {
      grad.copy_(reduced);
    } else {
      grad = reduced;
    }
    if (update_) {
      update_(i);
      grad.reset();
    }
  }
  late_.clear();
}

void Reduction::drop_gradients() {
  for (const Parameter& parameter : layout_.parameters) {
    parameter.tensor.mutable_grad().reset();
  }
  used_.assign(used_.size(), false);
}

}  // namespace encore::dist
