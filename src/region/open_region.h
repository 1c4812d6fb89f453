// Opens a region on this thread's tape, and a tape with it where there is none; closes it again.
#pragma once

#include <thread>

#include "region/replay_region.h"

namespace encore::region {

class OpenRegion {
 public:
  /// A region of the kind that `make` makes, for the tape with its residency, its first op and the replay region around
  /// it.
  using Make = std::function<std::shared_ptr<record::Region>(std::shared_ptr<store::Residency>, tape::OpId,
                                                             std::shared_ptr<ReplayRegion>)>;
  OpenRegion(const std::string& name, const Make& make);
  /// Closes the region, and whatever is still open inside it.
  ~OpenRegion();
  OpenRegion(const OpenRegion&) = delete;
  OpenRegion& operator=(const OpenRegion&) = delete;

  /// Closes the region. Throws ScopeError if it is not the innermost open one of this thread.
  void close(const std::string& who);

  const std::shared_ptr<record::Region>& region() const { return region_; }
  const std::shared_ptr<store::Residency>& residency() const { return residency_; }
  const tape::Tape& tape() const { return residency_->tape(); }
  /// Null once the thread's recorder is gone.
  std::shared_ptr<record::Recorder> recorder() const { return weak_recorder_.lock(); }

  /// True if this thread is inside a function that will be called again: what is inside is part of it.
  static bool is_inside_rerun();
  /// Who governs the innermost region of this thread, or null.
  static std::shared_ptr<Governor> governor();

 private:
  bool is_open() const;
  void shut();

  // The outermost region of a thread owns the recorder; the rest only know it.
  std::shared_ptr<record::Recorder> own_recorder_;
  std::weak_ptr<record::Recorder> weak_recorder_;
  std::optional<record::Recorder::Aside> aside_;
  std::shared_ptr<store::Residency> residency_;
  std::shared_ptr<record::Region> region_;
  std::thread::id thread_;
};

}  // namespace encore::region
