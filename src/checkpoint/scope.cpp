// Scope, and the calls that work inside one.
#include <encore/scope.h>

#include <encore/error.h>

#include "checkpoint/open_region.h"

namespace encore {

struct Scope::Impl {
  std::string name;
  OpenRegion open;

  ReplayRegion& region() const { return static_cast<ReplayRegion&>(*open.region()); }
};

Scope::Scope(Policy policy, std::string name) {
  const auto make = [&](std::shared_ptr<tape::Tape> tape, tape::OpId first, std::shared_ptr<ReplayRegion> parent) {
    RegionOptions options;
    options.name = name;
    options.policy = std::move(policy);
    options.together = false;
    return std::make_shared<ReplayRegion>(std::move(tape), first, std::move(parent), std::move(options));
  };
  impl_ = std::unique_ptr<Impl>(new Impl{name, {name, make}});
}

Scope::~Scope() = default;

void Scope::end() {
  impl_->open.close(impl_->name.empty() ? "scope" : "scope '" + impl_->name + "'");
}

ScopeStats Scope::stats() const {
  const std::lock_guard<std::recursive_mutex> lock(impl_->open.tape()->mutex());
  return impl_->region().stats();
}

std::string Scope::dump() const {
  const std::lock_guard<std::recursive_mutex> lock(impl_->open.tape()->mutex());
  return impl_->open.tape()->dump();
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
  const std::lock_guard<std::recursive_mutex> lock(recorder->tape()->mutex());
  const tape::ValueId value = recorder->tape()->find(tensor);
  if (value != tape::kNone && recorder->tape()->value(value).nbytes <= threshold_bytes) {
    return tensor;
  }
  const tape::OpId producer = value == tape::kNone ? tape::kNone : recorder->tape()->value(value).producer;
  const auto& regions = recorder->regions();
  for (auto region = regions.rbegin(); region != regions.rend(); ++region) {
    auto* replayed = dynamic_cast<ReplayRegion*>(region->get());
    if (replayed == nullptr) {
      return tensor;  // inside a function that is called again all is recomputed
    }
    const bool last = std::next(region) == regions.rend();
    if (producer != tape::kNone && producer >= (*region)->first() && !recorder->tape()->value(value).is_constant()) {
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
