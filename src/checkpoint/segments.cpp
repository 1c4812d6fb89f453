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

void SegmentRunner::op_comes(record::Recorder& recorder, tape::OpId next) {
  const int64_t node = next - first_;
  if (node > end_node_) {
    close(recorder);
  }
  if (recorder.regions().back()->subscriber() != this) {
    return;  // the scope is not the innermost region
  }
  while (next_segment_ < segments_.size() && segments_[next_segment_].end_node < node) {
    ++next_segment_;
  }
  if (next_segment_ < segments_.size() && segments_[next_segment_].start_node <= node) {
    open(recorder, next, segments_[next_segment_++]);
  }
}

void SegmentRunner::open(record::Recorder& recorder, tape::OpId next, const CheckpointSegment& segment) {
  region::RegionOptions options;
  options.name = text(segment);
  auto region = std::make_shared<region::ReplayRegion>(
      recorder.residency(), next, std::static_pointer_cast<region::ReplayRegion>(recorder.regions().back()),
      std::move(options));
  region->set_hooks_depth(recorder.regions().back()->hooks_depth());  // it was the scope that opened here
  end_node_ = segment.end_node;
  open_ = region;
  recorder.push(std::move(region));
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
