// One call of a checkpointed function.
#include <encore/checkpoint.h>

#include <encore/error.h>

#include "region/open_region.h"
#include "region/rerun_region.h"
#include "tape/compat.h"

namespace encore {

CheckpointGroup::CheckpointGroup(CheckpointOptions options)
    : options_(std::move(options)), group_(std::make_shared<region::RegionGroup>()) {
  if (options_.recompute != Recompute::kReplay) {
    throw InvalidArgument("checkpoint group" + (options_.name.empty() ? "" : " '" + options_.name + "'") +
                          ": functions that are called again can't be recomputed together; use kReplay");
  }
}

}  // namespace encore

namespace encore::detail {
namespace {

std::string who(const CheckpointOptions& options) {
  return options.name.empty() ? "checkpoint" : "checkpoint '" + options.name + "'";
}

region::OpenRegion::Make make_replay_region(const CheckpointOptions& options,
                                            const std::shared_ptr<region::RegionGroup>& group) {
  return [&options, &group](std::shared_ptr<store::Residency> residency, tape::OpId first,
                            std::shared_ptr<region::ReplayRegion> parent) {
    region::RegionOptions region;
    region.name = options.name;
    region.policy = options.policy;
    region.check = options.determinism_check;
    region.preserve_rng_state = options.preserve_rng_state;
    region.group = group;
    auto made =
        std::make_shared<region::ReplayRegion>(std::move(residency), first, std::move(parent), std::move(region));
    if (group) {
      group->add(made);
    }
    return made;
  };
}

region::OpenRegion::Make make_rerun_region(const std::shared_ptr<region::RerunFrame>& frame) {
  return [frame](std::shared_ptr<store::Residency> residency, tape::OpId first,
                 const std::shared_ptr<region::ReplayRegion>&) {
    frame->begin(std::move(residency), first);
    return std::make_shared<region::RerunRegion>(first, frame, /*again=*/false);
  };
}

}  // namespace

struct CheckpointCall::Impl {
  std::string who;
  std::shared_ptr<region::RerunFrame> frame;
  std::optional<region::OpenRegion> open;
  std::shared_ptr<region::Governor> governor;  // has its own mind of what to recompute: the checkpoint is a hint to it
  tape::OpId first = 0;
  std::optional<compat::UnoptimizedScript> script;  // of a function that is called again
};

CheckpointCall::CheckpointCall(const CheckpointOptions& options, const std::shared_ptr<region::RegionGroup>& group)
    : impl_(new Impl{who(options), nullptr, {}, region::OpenRegion::governor(), 0, {}}) {
  if (impl_->governor) {
    impl_->first = static_cast<tape::OpId>(record::Recorder::current()->tape().ops().size());
  } else {
    impl_->open.emplace(options.name, make_replay_region(options, group));
  }
}

CheckpointCall::CheckpointCall(const CheckpointOptions& options, const std::vector<at::Tensor>& inputs, Again again) {
  if (!again) {
    throw InvalidArgument(who(options) +
                          ": the function or an argument can't be copied, so it can't be called again; use kReplay");
  }
  auto frame = std::make_shared<region::RerunFrame>(
      region::RerunOptions{options.name, options.preserve_rng_state, options.determinism_check, options.early_stop},
      inputs, std::move(again));
  impl_ = std::unique_ptr<Impl>(new Impl{who(options), frame, {}, nullptr, 0, {}});
  impl_->script.emplace();
  impl_->open.emplace(options.name, make_rerun_region(frame));
}

CheckpointCall::~CheckpointCall() = default;

void CheckpointCall::finish(const Seen& results) {
  impl_->script.reset();
  if (impl_->governor) {
    impl_->governor->hint(impl_->first);
  } else {
    impl_->open->close(impl_->who);
  }
  if (results.differentiable == 0 && results.unknown == 0) {
    throw InvalidArgument(
        impl_->who +
        ": the function returned nothing that can have a gradient; return a tensor of a floating-point "
        "or complex type, or call the function without checkpoint");
  }
  if (impl_->frame) {
    impl_->frame->end();
  }
}

bool is_worth_recording(const CheckpointOptions& options) {
  const bool inside_rerun = region::OpenRegion::is_inside_rerun();
  if (!c10::GradMode::is_enabled() && !inside_rerun && record::anyone_listens()) {
    record::tell_listeners(&record::Subscriber::ran_plainly, options.name.empty() ? "checkpoint" : options.name,
                           "gradients are off, so autograd saves nothing");
  }
  return c10::GradMode::is_enabled() && !inside_rerun;
}

void check_arguments(const CheckpointOptions& options, const std::vector<Seen>& arguments) {
  if (arguments.empty()) {
    throw InvalidArgument(who(options) +
                          ": called without an argument; what a function captures is not seen as its input, so pass at "
                          "least one tensor");
  }
  bool any = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    any = any || arguments[i].tensors > 0 || arguments[i].unknown > 0;
    if (arguments[i].undefined > 0) {
      throw InvalidArgument(who(options) + ": argument " + std::to_string(i) +
                            " is or holds an undefined tensor; pass std::nullopt where a tensor may be missing");
    }
  }
  if (!any) {
    throw InvalidArgument(who(options) + ": no argument holds a tensor; pass at least one");
  }
}

}  // namespace encore::detail
