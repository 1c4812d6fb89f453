// Ops written on a tape by hand, without an observer.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "record/writer.h"

namespace encore::tape {

/// A tape on which ops are recorded by their names.
class TapeByHand {
 public:
  store::Residency residency{"by hand"};
  const Tape& tape = residency.tape();

  /// Runs the op, without autograd, and records it; gives its first result.
  at::Tensor run(const std::string& name, const std::string& overload, std::vector<c10::IValue> args) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    std::unique_ptr<OpInfo>& info = infos_[name + "." + overload];
    if (!info) {
      info = OpInfo::of(handle);
    }
    PendingOp pending;
    record::Writer writer(residency);
    writer.begin(pending, *info, c10::ArrayRef<const c10::IValue>(args.data(), args.size()));
    torch::jit::Stack stack(args.begin(), args.end());
    {
      const at::AutoGradMode no_grad(false);
      handle.callBoxed(stack);
    }
    writer.end(pending, c10::ArrayRef<const c10::IValue>(stack.data(), stack.size()));
    return stack.front().toTensor();
  }

  at::Tensor mul(const at::Tensor& a, const at::Tensor& b) { return run("aten::mul", "Tensor", {a, b}); }
  at::Tensor exp(const at::Tensor& a) { return run("aten::exp", "", {a}); }

 private:
  std::map<std::string, std::unique_ptr<OpInfo>> infos_;
};

}  // namespace encore::tape
