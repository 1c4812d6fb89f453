// What it costs to give a value up, for steps in which no plan says what to give up.
#pragma once

#include "store/residency.h"

namespace encore::budget {

/// Whether the value's bytes are somewhere, so that an op could read them.
bool is_there(const store::Residency& residency, tape::ValueId value);

class Prices {
 public:
  /// The step has come to this op, forward or backward.
  void move_to(tape::OpId op) { position_ = op; }
  /// Ops `first` .. `last` - 1 are a checkpoint of the user's: meant to go first.
  void hint(tape::OpId first, tape::OpId last);

  /// Low for what is cheap to bring back, large, and not needed soon. Backward needs last what was made first. As it
  /// was when it was last worked out anew, but for the distance: what was given up since makes it only dearer.
  double of(const store::Residency& residency, tape::ValueId value);
  double anew(const store::Residency& residency, tape::ValueId value);
  /// Values have come back: what depends on them is cheaper. After very many, prices are worked out anew.
  void came_back(int64_t ops, size_t all_ops);
  /// How many ops were looked at since the last call.
  size_t take_work() { return std::exchange(work_, 0); }

 private:
  double price(const tape::Value& value, double replay_ns) const;
  double replay_ns_of(const store::Residency& residency, tape::ValueId value);

  tape::OpId position_ = 0;
  std::vector<char> hinted_;      // by op
  std::vector<float> replay_ns_;  // by value, as far as it is known; 0: not
  int64_t came_back_ = 0;         // ops, since they were forgotten
  // Of the search for what must come back for a value, which is done for very many.
  std::vector<uint32_t> seen_;  // by op: the search that came by last
  uint32_t search_ = 0;
  size_t work_ = 0;
  std::vector<tape::ValueId> open_;
};

}  // namespace encore::budget
