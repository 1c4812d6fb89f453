// Which module an op belongs to, as far as the parameters that it reads tell.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tape/tape.h"

namespace torch::nn {
class Module;
}

namespace encore::budget {

class ModuleNames {
 public:
  void add(const torch::nn::Module& model);
  /// By op: the module whose parameter or buffer it reads, and for all others the innermost module that both the last
  /// such op before it and the next one after it are in. Empty if no module was added. The tape's lock is held.
  std::vector<std::string> of_ops(const tape::Tape& tape) const;

 private:
  struct Named {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // as long as it is held, no other storage has this address
    std::string module;
  };
  void add(const at::Tensor& tensor, const std::string& name);

  std::unordered_map<const c10::StorageImpl*, Named> named_;
};

}  // namespace encore::budget
