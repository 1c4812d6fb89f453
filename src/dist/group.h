// What a RankGroup holds.
#pragma once

#include <encore/dist.h>

#include "dist/roll_call.h"

namespace encore {

struct RankGroup::Impl {
  compat::StorePtr server;  // the store itself, if this rank hosts it: last to go
  GroupOptions options;
  int rank = 0;
  int size = 1;
  std::string host;  // whose address Gloo binds to; empty: by interface or by default
  std::atomic<bool> lost{false};
  /// The first is the program's, the others are for one DataParallel each: collectives of different models could change
  /// places on one connection. All stay until the goodbye.
  std::vector<compat::GroupPtr> groups;
  std::vector<size_t> free_groups;
  std::unique_ptr<dist::RollCall> roll;  // null: the program made the group

  std::chrono::milliseconds patience() const {
    return std::min<std::chrono::milliseconds>(options.timeout / 3, std::chrono::seconds(5));
  }
  /// A place in `groups`; all ranks must ask in the same order.
  size_t take_group();
  void give_back(size_t place) {
    if (roll != nullptr) {
      free_groups.push_back(place);
    }
  }
  /// All ranks must; throws RankError, soon, if one of them tells of a failure meanwhile or does not come.
  compat::GroupPtr connect(const std::string& name);
  /// Calls the roll, and throws the RankError that names who is lost. This group is of no more use then.
  [[noreturn]] void fail(const std::string& collective, const std::string& why);
};

}  // namespace encore
