// News of failures among the ranks of one group, over the store and on connections of their own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <thread>

#include "dist/compat.h"

namespace encore::dist {

/// Where the store is, and under which keys a group finds its own.
struct StorePlace {
  std::string host;
  uint16_t port = 0;
  std::string prefix;  // of the group's keys; each generation of a group has another
  int host_rank = -1;  // the rank that serves the store; -1: the launcher does
  std::chrono::milliseconds timeout{};

  /// A connection of its own, since a store's client serves one call at a time.
  compat::StorePtr connect(std::chrono::milliseconds patience) const;
};

/// What a roll call found.
struct RollResult {
  std::vector<int> lost;       // did not answer
  std::vector<int> elsewhere;  // answered, and are in no collective
  int announced_by = -1;       // the rank that first told of the failure
  std::string announcement;    // and what it told
  bool store_answers = true;
};

/// A thread of each rank waits for news and answers for its rank: "here", and what the rank is doing.
class RollCall {
 public:
  RollCall(StorePlace place, int rank, int size);
  /// Waits a while until everybody has come to the same point, so that nobody's connections end under another's last
  /// collective; not if `failed`.
  ~RollCall();
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;

  /// Another rank has told of a failure.
  bool news() const { return state_->news; }
  /// What the rank takes part in now; empty: nothing.
  void now_in(const std::string& collective);

  /// Tells `ranks` ranks of a failure and asks nobody.
  void announce(const std::string& announcement, int ranks, std::chrono::milliseconds patience);
  /// Tells everybody of a failure and asks who is there. Takes at most `patience`.
  RollResult call(const std::string& announcement, std::chrono::milliseconds patience);
  /// The ranks of the group to come, agreed: the first to ask says who they are.
  std::vector<int> agree_on_survivors(const std::vector<int>& mine, std::chrono::milliseconds patience);
  bool called() const { return called_; }
  const std::vector<int>& lost() const { return lost_; }
  const StorePlace& place() const { return place_; }

 private:
  // Shared with the thread, which may outlive the rest if the store's host is stopped.
  struct State {
    std::atomic<bool> news{false};
    std::atomic<bool> leaving{false};
    std::mutex mutex;
    std::condition_variable ended_changed;
    bool ended = false;
    std::string now_in;
  };

  static void listen(const std::shared_ptr<State>& state, const StorePlace& place, int rank);
  void say_goodbye() noexcept;

  StorePlace place_;
  int rank_;
  int size_;
  /// Made while all is well: a connection to a host that is going down aborts the process in LibTorch 1.13, on the
  /// thread that each of its store's clients has.
  compat::StorePtr store_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::atomic<bool> called_{false};
  std::vector<int> lost_;
};

}  // namespace encore::dist
