// Which module each op of a step ran in, where modules can be heard: a Python process.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace encore::budget {

/// Which module each op of a step ran in, as whoever ran them said.
class ModuleTrail {
 public:
  /// `next_op`: the first one inside, or after.
  void enter(size_t next_op, std::string name);
  void leave(size_t next_op);
  bool empty() const { return marks_.empty(); }
  /// By op, as `module_paths`.
  std::vector<std::string> of_ops(size_t num_ops) const;

 private:
  struct Mark {
    size_t next_op;
    std::string name;
  };
  std::vector<std::string> inside_;
  std::vector<Mark> marks_;  // from here on this module, in order
};

}  // namespace encore::budget
