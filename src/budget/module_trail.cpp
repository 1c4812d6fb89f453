// The marks of modules entered and left, and the ops between them.
#include "budget/module_trail.h"

#include <algorithm>

namespace encore::budget {

void ModuleTrail::enter(size_t next_op, std::string name) {
  marks_.push_back({next_op, name});
  inside_.push_back(std::move(name));
}

void ModuleTrail::leave(size_t next_op) {
  if (!inside_.empty()) {  // it may have been entered before the step began
    inside_.pop_back();
    marks_.push_back({next_op, inside_.empty() ? "" : inside_.back()});
  }
}

std::vector<std::string> ModuleTrail::of_ops(size_t num_ops) const {
  std::vector<std::string> modules(num_ops);
  for (size_t i = 0; i < marks_.size(); ++i) {
    const size_t end = i + 1 < marks_.size() ? marks_[i + 1].next_op : num_ops;
    for (size_t op = marks_[i].next_op; op < std::min(end, num_ops); ++op) {
      modules[op] = marks_[i].name;
    }
  }
  return modules;
}

}  // namespace encore::budget
