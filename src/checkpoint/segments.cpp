// Segment plans, and how a scope follows one.
#include <encore/segments.h>

#include <encore/error.h>

#include "checkpoint/segment_runner.h"
#include "tape/random.h"

namespace encore {
namespace {

std::string text(const CheckpointSegment& segment) {
  return "segment " + std::to_string(segment.start_node) + " to " + std::to_string(segment.end_node);
}

std::vector<CheckpointSegment> sorted(std::vector<CheckpointSegment> segments) {
  std::sort(segments.begin(), segments.end(), [](const auto& a, const auto& b) { return a.start_node < b.start_node; });
  return segments;
}

}  // namespace

CheckpointConfig CheckpointConfig::uniform(int64_t num_nodes, int64_t num_segments) {
  if (num_nodes < 0 || num_segments < 0) {
    throw InvalidArgument("segments: " + std::to_string(num_nodes) + " nodes in " + std::to_string(num_segments) +
                          " segments; neither may be negative");
  }
  CheckpointConfig config;
  const int64_t count = std::min(num_nodes, num_segments);
  int64_t start = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t size = num_nodes / count + (i < num_nodes % count ? 1 : 0);
    config.segments.push_back({start, start + size - 1});
    start += size;
  }
  return config;
}

bool CheckpointConfig::should_checkpoint(int64_t node) const {
  return std::any_of(segments.begin(), segments.end(), [node](const CheckpointSegment& segment) {
    return segment.start_node <= node && node <= segment.end_node;
  });
}

void CheckpointConfig::check() const {
  for (const CheckpointSegment& segment : segments) {
    if (segment.start_node < 0) {
      throw InvalidArgument("segments: " + text(segment) + " begins before node 0, the first one");
    }
    if (segment.end_node < segment.start_node) {
      throw InvalidArgument("segments: " + text(segment) + " ends before it begins; swap its ends");
    }
  }
  const auto ordered = sorted(segments);
  for (size_t i = 1; i < ordered.size(); ++i) {
    if (ordered[i].start_node <= ordered[i - 1].end_node) {
      throw InvalidArgument("segments: " + text(ordered[i - 1]) + " and " + text(ordered[i]) +
                            " overlap; a node belongs to one segment at most");
    }
  }
}

std::vector<bool> plan_recomputation(int64_t num_nodes, const CheckpointConfig& config) {
  if (num_nodes < 0) {
    throw InvalidArgument("segments: " + std::to_string(num_nodes) + " nodes; there can't be fewer than none");
  }
  config.check();
  std::vector<bool> plan(static_cast<size_t>(num_nodes));
  for (const CheckpointSegment& segment : config.segments) {
    if (segment.end_node >= num_nodes) {
      throw InvalidArgument("segments: " + text(segment) + " is out of range, there are " + std::to_string(num_nodes) +
                            " nodes; count_nodes() tells how many a function has");
    }
    std::fill(plan.begin() + segment.start_node, plan.begin() + segment.end_node + 1, true);
  }
  return plan;
}

SegmentRunner::SegmentRunner(const CheckpointConfig& config) {
  config.check();
  segments_ = sorted(config.segments);
}

bool SegmentRunner::before_op_in_scope(record::Recorder& recorder, tape::OpId next) {
  const int64_t node = next - first_;
  while (next_segment_ < segments_.size() && segments_[next_segment_].end_node < node) {
    ++next_segment_;
  }
  if (next_segment_ == segments_.size() || node < segments_[next_segment_].start_node) {
    return false;
  }
  const CheckpointSegment segment = segments_[next_segment_++];
  RegionOptions options;
  options.name = text(segment);
  options.before_op = [self = shared_from_this(), segment](record::Recorder& current, tape::OpId op) {
    return self->before_op_in_segment(current, op, segment.end_node);
  };
  auto region = std::make_shared<ReplayRegion>(recorder.residency(), next,
                                               std::static_pointer_cast<ReplayRegion>(recorder.regions().back()),
                                               std::move(options));
  region->set_hooks_depth(recorder.regions().back()->hooks_depth());  // it was the scope that opened here
  open_ = region;
  recorder.push(std::move(region));
  return true;
}

bool SegmentRunner::before_op_in_segment(record::Recorder& recorder, tape::OpId next, int64_t end_node) {
  if (next - first_ <= end_node) {
    return false;
  }
  recorder.pop();
  return true;
}

void SegmentRunner::close(record::Recorder& recorder) {
  const auto open = open_.lock();
  if (open && !recorder.regions().empty() && recorder.regions().back() == open) {
    recorder.pop();
  }
}

void SegmentRunner::check_reached(int64_t num_nodes, const std::string& who) const {
  for (const CheckpointSegment& segment : segments_) {
    if (segment.end_node >= num_nodes) {
      throw InvalidArgument(who + ": " + text(segment) + " is out of range, " + std::to_string(num_nodes) +
                            " nodes were recorded; count_nodes() tells how many a function has");
    }
  }
}

namespace detail {

struct NodeCounter::Impl {
  tape::RandomState random{at::detail::getDefaultCPUGenerator()};
  Scope scope;
};

NodeCounter::NodeCounter() : impl_(std::make_unique<Impl>()) {}
NodeCounter::~NodeCounter() {
  impl_->random.restore();
}
int64_t NodeCounter::count() const {
  return impl_->scope.stats().ops_recorded;
}

}  // namespace detail
}  // namespace encore
