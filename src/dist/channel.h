// Collectives over a process group: named, within a time-out, and with memory that is ours.
#pragma once

#include "dist/group.h"

namespace encore::dist {

/// A collective under way. What it works on stays alive until the process group has let go of it.
class Pending {
 public:
  Pending() = default;
  Pending(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<const void> memory, std::string name)
      : work_(std::move(work)), memory_(std::move(memory)), name_(std::move(name)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&& other) noexcept;
  ~Pending() { abandon(); }

  c10d::Work& work() const { return *work_; }
  const std::string& name() const { return name_; }
  /// The work has ended, by its future: it calls itself completed only a moment later.
  void over() {
    work_.reset();
    memory_.reset();
  }

 private:
  /// Memory that the process group may still write to goes to those that wait for the end of their work.
  void abandon() noexcept;

  c10::intrusive_ptr<c10d::Work> work_;
  std::shared_ptr<const void> memory_;
  std::string name_;
};

/// The collectives of one group. On one thread at a time.
class Channel {
 public:
  explicit Channel(std::shared_ptr<RankGroup::Impl> group)
      : group_(std::move(group)), place_(group_->take_group()), connections_(group_->groups[place_]) {}
  ~Channel() { group_->give_back(place_); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int rank() const { return group_->rank; }
  int size() const { return group_->size; }

  /// `count` numbers of `type` at `data`, which `memory` keeps alive, are handed over as a tensor of their own: Gloo's
  /// thread holds its tensor for a moment after the work has ended.
  Pending allreduce(void* data, int64_t count, at::ScalarType type, std::shared_ptr<const void> memory,
                    std::string name);
  Pending reduce(void* data, int64_t count, at::ScalarType type, int root, std::shared_ptr<const void> memory,
                 std::string name);
  Pending broadcast(void* data, int64_t nbytes, int root, std::shared_ptr<const void> memory, std::string name);

  /// Throws RankError if it fails, if another rank tells of a failure or if the time is up; the group is lost then.
  void wait(Pending& pending);

  /// Everybody's numbers, by rank; all must give the same count.
  std::vector<std::vector<int64_t>> exchange(const std::vector<int64_t>& mine, const std::string& name);
  /// The text that `root` has.
  std::string text_from(int root, const std::string& mine, const std::string& name);
  /// `root`'s tensors to everybody; small ones together, through `piece`, a tensor of bytes.
  void broadcast_tensors(const std::vector<at::Tensor>& tensors, int root, const at::Tensor& piece,
                         const std::string& name);

  bool is_lost() const { return group_->lost; }
  int64_t waiting_ns() const { return waiting_ns_; }
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  void broadcast_together(const std::vector<at::Tensor>& tensors, int root, const at::Tensor& piece, int64_t bytes,
                          const std::string& name);
  void require_group(const std::string& name) const;
  at::Tensor over(void* data, int64_t count, at::ScalarType type);

  std::shared_ptr<RankGroup::Impl> group_;
  size_t place_;
  compat::GroupPtr connections_;
  int64_t waiting_ns_ = 0;
  int64_t sent_bytes_ = 0;
};

}  // namespace encore::dist
