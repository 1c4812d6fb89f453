// Names of parameters become names of ops.
#include "budget/module_names.h"

#include <torch/nn/module.h>

namespace encore::budget {
namespace {

/// The module that two paths have in common: "blocks.3" of "blocks.3.attention.out" and "blocks.3.mlp".
std::string common_module(const std::string& a, const std::string& b) {
  size_t end = 0;
  for (size_t i = 0;; ++i) {
    const bool a_ends = i == a.size() || a[i] == '.';
    const bool b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) {
      end = i;
    }
    if (i == a.size() || i == b.size() || a[i] != b[i]) {
      return a.substr(0, end);
    }
  }
}

}  // namespace

void ModuleNames::add(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    add(item.value(), item.key());
  }
  for (const auto& item : model.named_buffers()) {
    add(item.value(), item.key());
  }
}

void ModuleNames::add(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined() || !tensor.has_storage()) {
    return;
  }
  const size_t dot = name.rfind('.');
  const auto storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(tensor.storage().unsafeGetStorageImpl());
  named_.insert_or_assign(storage.get(), Named{c10::weak_intrusive_ptr<c10::StorageImpl>(storage),
                                               dot == std::string::npos ? "" : name.substr(0, dot)});
}

std::vector<std::string> ModuleNames::of_ops(const tape::Tape& tape) const {
  if (named_.empty()) {
    return {};
  }
  constexpr size_t kNobody = SIZE_MAX;
  const size_t num_ops = tape.ops().size();
  std::vector<std::string> modules(num_ops);
  size_t last = kNobody;  // op that reads a parameter
  for (size_t i = 0; i < num_ops; ++i) {
    const Named* own = nullptr;
    for (const tape::TensorArg& arg : tape.ops()[i].tensors) {
      const c10::Storage storage = arg.value == tape::kNone ? c10::Storage() : tape.value(arg.value).strong;
      const auto found = storage ? named_.find(storage.unsafeGetStorageImpl()) : named_.end();
      own = found == named_.end() ? own : &found->second;
    }
    if (own == nullptr) {
      continue;
    }
    modules[i] = own->module;
    for (size_t between = last == kNobody ? i : last + 1; between < i; ++between) {
      modules[between] = common_module(modules[last], modules[i]);
    }
    last = i;
  }
  return modules;
}

}  // namespace encore::budget
