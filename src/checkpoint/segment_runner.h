// Opens and closes the regions of a CheckpointConfig while its scope records.
#pragma once

#include <encore/segments.h>

#include "region/replay_region.h"

namespace encore {

/// A segment begins when its first node is about to run, and ends when the node after its last is, or with the scope.
/// Where a checkpoint of the user's own spans that moment, the border moves to the checkpoint's end: regions nest.
class SegmentRunner : public record::Subscriber {
 public:
  explicit SegmentRunner(const CheckpointConfig& config);

  void op_comes(record::Recorder& recorder, tape::OpId next) override;

  /// Closes the segment that is open, if the scope ends in it.
  void close(record::Recorder& recorder);

  /// Throws InvalidArgument if the scope had too few nodes for the segments.
  void check_reached(int64_t num_nodes, const std::string& who) const;

  void set_first(tape::OpId first) { first_ = first; }

 private:
  void open(record::Recorder& recorder, tape::OpId next, const CheckpointSegment& segment);

  std::vector<CheckpointSegment> segments_;
  size_t next_segment_ = 0;
  tape::OpId first_ = 0;
  int64_t end_node_ = 0;  // of the segment that was opened last
  std::weak_ptr<record::Region> open_;
};

}  // namespace encore
