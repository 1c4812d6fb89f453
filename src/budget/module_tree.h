// The modules of the user's models: who is inside whom, and whose a parameter or buffer is.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tape/torch.h"

namespace torch::nn {
class Module;
}

namespace encore::budget {

constexpr int32_t kNoModule = -1;

class ModuleTree {
 public:
  struct Node {
    std::string path;  // "blocks.3.mlp"; empty for a model itself
    std::string kind;  // its class: "torch::nn::LinearImpl"
    std::string form;  // its class and those of all inside it: the same for modules that do the same
    int32_t parent = kNoModule;
    int32_t place = 0;  // among its parent's children, in the order in which they were registered
    std::vector<int32_t> children;
    bool has_tensors = false;  // parameters or buffers, its own or of one inside it
    /// All that it does are ops that read its tensors: a layer of LibTorch's, unlike a loop over time or attention.
    bool is_one_op = false;
  };

  void add(const torch::nn::Module& model);
  bool empty() const { return nodes_.empty(); }
  const Node& node(int32_t module) const { return nodes_[static_cast<size_t>(module)]; }

  /// Whose tensor the storage is; kNoModule if nobody's. Of several, as with tied weights, the one that runs such ops.
  int32_t owner_of(const c10::StorageImpl* storage, std::string_view op) const;
  bool is_inside(int32_t module, int32_t around) const;
  /// The innermost module that both are in.
  int32_t common(int32_t a, int32_t b) const;
  int32_t root_of(int32_t module) const;
  /// The child of `around` that `module` is, or is in; kNoModule if it is not.
  int32_t child_towards(int32_t around, int32_t module) const;

 private:
  struct Owned {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // as long as it is held, no other storage has this address
    std::vector<int32_t> modules;
  };
  int32_t add(const torch::nn::Module& module, std::string path, int32_t parent, int32_t place);
  void own(const at::Tensor& tensor, int32_t module);

  std::vector<Node> nodes_;
  std::unordered_map<const c10::StorageImpl*, Owned> owned_;
};

}  // namespace encore::budget
