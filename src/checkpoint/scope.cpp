// Scope, and the calls that work inside one.
#include <encore/scope.h>

#include <encore/error.h>

#include "checkpoint/segment_runner.h"
#include "region/open_region.h"

namespace encore {

namespace {

region::OpenRegion::Make make_region(const std::string& name, Policy policy,
                                     const std::shared_ptr<SegmentRunner>& segments) {
  return [name, policy = std::move(policy), segments](std::shared_ptr<store::Residency> residency, tape::OpId first,
                                                      std::shared_ptr<region::ReplayRegion> parent) {
    region::RegionOptions options;
    options.name = name;
    options.policy = policy;
    options.together = false;
    options.is_checkpoint = policy.rest() != Action::kKeep;
    if (segments) {
      segments->set_first(first);
      options.subscriber = segments;
    }
    return std::make_shared<region::ReplayRegion>(std::move(residency), first, std::move(parent), std::move(options));
  };
}

}  // namespace

struct Scope::Impl {
  Impl(std::string scope_name, Policy policy, std::shared_ptr<SegmentRunner> runner)
      : name(std::move(scope_name)),
        segments(std::move(runner)),
        open(name, make_region(name, std::move(policy), segments)) {}

  std::string name;
  std::shared_ptr<SegmentRunner> segments;
  region::OpenRegion open;

  region::ReplayRegion& region() const { return static_cast<region::ReplayRegion&>(*open.region()); }
};

Scope::Scope(Policy policy, std::string name)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(policy), nullptr)) {}

Scope::Scope(const CheckpointConfig& config, std::string name)
    : impl_(std::make_unique<Impl>(std::move(name), keep_all(), std::make_shared<SegmentRunner>(config))) {}

Scope::~Scope() = default;

void Scope::end() {
  const std::string who = impl_->name.empty() ? "scope" : "scope '" + impl_->name + "'";
  if (!impl_->segments) {
    impl_->open.close(who);
    return;
  }
  if (const auto recorder = impl_->open.recorder(); recorder && recorder.get() == record::Recorder::current()) {
    impl_->segments->close(*recorder);
  }
  const int64_t num_nodes = stats().ops_recorded;
  impl_->open.close(who);
  impl_->segments->check_reached(num_nodes, who);
}

ScopeStats Scope::stats() const {
  const std::lock_guard<RecursiveMutex> lock(impl_->open.tape().mutex());
  return impl_->region().stats();
}

std::string Scope::dump() const {
  const std::lock_guard<RecursiveMutex> lock(impl_->open.tape().mutex());
  return impl_->open.tape().dump();
}

at::Tensor checkpoint(const at::Tensor& tensor) {
  return adaptive_checkpoint(tensor, -1);
}

at::Tensor adaptive_checkpoint(const at::Tensor& tensor, int64_t threshold_bytes) {
  record::Recorder* recorder = record::Recorder::current();
  if (recorder == nullptr || record::Recorder::is_paused() || recorder->regions().empty()) {
    throw ScopeError("checkpoint(tensor): no scope is open on this thread; call it inside an encore::Scope");
  }
  if (!tensor.defined()) {
    throw InvalidArgument("checkpoint(tensor): the tensor is undefined; pass the result of an op");
  }
  const std::lock_guard<RecursiveMutex> lock(recorder->tape().mutex());
  const tape::ValueId value = recorder->tape().find(tensor);
  if (value != tape::kNone && recorder->tape().value(value).nbytes <= threshold_bytes) {
    return tensor;
  }
  const tape::OpId producer = value == tape::kNone ? tape::kNone : recorder->tape().value(value).producer;
  const auto& regions = recorder->regions();
  for (auto region = regions.rbegin(); region != regions.rend(); ++region) {
    auto* replayed = dynamic_cast<region::ReplayRegion*>(region->get());
    if (replayed == nullptr) {
      return tensor;  // inside a function that is called again all is recomputed
    }
    const bool last = std::next(region) == regions.rend();
    if (producer != tape::kNone && producer >= (*region)->first() && !recorder->residency()->is_constant(value)) {
      replayed->mark(value);
      return tensor;
    }
    if (last) {
      replayed->count_marked_constant();
    }
  }
  return tensor;
}

}  // namespace encore
