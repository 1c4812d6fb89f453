// The path of ops alone, and the sum of what backward asks for.
#include "budget/routine.h"

namespace encore::budget {

/// The first event from this one on that is no node of a backward: nobody looks at those.
size_t Routine::after_backward(size_t event) const {
  while (event < expected_.path.size() && expected_.backward[event]) {
    ++event;
  }
  return event;
}

bool Routine::op_ended(const tape::Tape& tape, tape::OpId op) {
  if (const size_t event = after_backward(next_); event > next_) {
    next_ = event;
    path_ = left_ ? path_ : expected_.path[event - 1];
  }
  path_ = extend_path(path_, tape, op);
  left_ = left_ || next_ >= expected_.path.size() || expected_.path[next_] != path_;
  ++next_;
  return !left_;
}

bool Routine::is_whole() const {
  return !left_ && after_backward(next_) == expected_.path.size() && asked_ == expected_.asked;
}

}  // namespace encore::budget
