// Reads a model's structure once, when it is named.
#include "budget/module_tree.h"

#include <torch/nn/module.h>

namespace encore::budget {
namespace {

constexpr std::string_view kLibTorch = "torch::nn::";

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Whether a class without modules inside it does nothing but ops that read its tensors.
bool runs_one_op(std::string_view kind) {
  const bool is_several =
      has_part(kind, "RNN") || has_part(kind, "LSTM") || has_part(kind, "GRU") || has_part(kind, "Attention");
  return kind.substr(0, kLibTorch.size()) == kLibTorch && !is_several;
}

}  // namespace

void ModuleTree::add(const torch::nn::Module& model) {
  add(model, "", kNoModule, 0);
}

int32_t ModuleTree::add(const torch::nn::Module& module, std::string path, int32_t parent, int32_t place) {
  const auto id = static_cast<int32_t>(nodes_.size());
  Node node;
  node.path = std::move(path);
  node.kind = node.form = module.name();
  node.parent = parent;
  node.place = place;
  nodes_.push_back(node);
  for (const auto& tensors : {module.named_parameters(/*recurse=*/false), module.named_buffers(/*recurse=*/false)}) {
    for (const auto& item : tensors) {
      own(item.value(), id);
      node.has_tensors = true;
    }
  }
  int32_t number = 0;
  for (const auto& item : module.named_children()) {
    const int32_t child = add(*item.value(), node.path.empty() ? item.key() : node.path + "." + item.key(), id, number);
    ++number;
    node.children.push_back(child);
    node.form += (number == 1 ? "(" : ",") + nodes_[static_cast<size_t>(child)].form;
    node.has_tensors = node.has_tensors || nodes_[static_cast<size_t>(child)].has_tensors;
  }
  node.form += number > 0 ? ")" : "";
  node.is_one_op = node.children.empty() && runs_one_op(node.kind);
  nodes_[static_cast<size_t>(id)] = std::move(node);
  return id;
}

void ModuleTree::own(const at::Tensor& tensor, int32_t module) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  const auto storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
  const auto [entry, is_new] =
      owned_.try_emplace(storage.get(), Owned{c10::weak_intrusive_ptr<c10::StorageImpl>(storage), {}});
  (void)is_new;
  entry->second.modules.push_back(module);
}

int32_t ModuleTree::owner_of(const c10::StorageImpl* storage, std::string_view op) const {
  const auto found = owned_.find(storage);
  if (found == owned_.end()) {
    return kNoModule;
  }
  for (const int32_t module : found->second.modules) {
    if (has_part(node(module).kind, "Embedding") == has_part(op, "embedding")) {
      return module;
    }
  }
  return found->second.modules.front();
}

bool ModuleTree::is_inside(int32_t module, int32_t around) const {
  while (module != kNoModule && module != around) {
    module = node(module).parent;
  }
  return module == around;
}

int32_t ModuleTree::common(int32_t a, int32_t b) const {
  while (a != kNoModule && !is_inside(b, a)) {
    a = node(a).parent;
  }
  return a;
}

int32_t ModuleTree::root_of(int32_t module) const {
  while (module != kNoModule && node(module).parent != kNoModule) {
    module = node(module).parent;
  }
  return module;
}

int32_t ModuleTree::child_towards(int32_t around, int32_t module) const {
  while (module != kNoModule && node(module).parent != around) {
    module = node(module).parent;
  }
  return module;
}

}  // namespace encore::budget
