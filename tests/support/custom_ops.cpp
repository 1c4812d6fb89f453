// The misbehaving operators, registered as a user's library would.
#include "support/custom_ops.h"

#include <torch/library.h>

#include "tape/compat.h"

namespace encore::test::custom_ops {
namespace {

std::atomic<int64_t> g_runs{0};
std::atomic<bool> g_fail{false};

at::Tensor fails(const at::Tensor& tensor) {
  ++g_runs;
  TORCH_CHECK(!g_fail, "told to fail");
  return tensor.clone();
}
at::Tensor stumbles(const at::Tensor& tensor) {
  if (g_fail.exchange(false)) {
    throw Stumble();
  }
  return tensor.cos();
}
at::Tensor grows(const at::Tensor& tensor) {
  return tensor.new_ones({tensor.size(0) + g_runs++, tensor.size(1)});
}
at::Tensor flips(const at::Tensor& tensor) {
  at::Tensor result = tensor.clone();
  static_cast<char*>(result.data_ptr())[0] = static_cast<char>(g_runs++);
  return result;
}
at::Tensor retypes(const at::Tensor& tensor) {
  return g_runs++ == 0 ? tensor.clone() : tensor.to(at::kInt);
}
at::Tensor counts(const at::Tensor& tensor) {
  ++g_runs;
  return tensor.clone();
}
at::Tensor draws(const at::Tensor& tensor) {
  ++g_runs;
  return tensor * at::rand_like(tensor);
}
at::Tensor asks(const at::Tensor& tensor) {
  ++g_runs;
  return tensor * (c10::GradMode::is_enabled() ? 2 : 3);
}
std::vector<at::Tensor> splits(const at::Tensor& tensor) {
  std::vector<at::Tensor> pieces;
  for (int64_t i = 0; i <= g_runs; ++i) {
    pieces.push_back(tensor.clone());
  }
  ++g_runs;
  return pieces;
}
at::Tensor mapped(const c10::Dict<std::string, at::Tensor>& tensors) {
  ++g_runs;
  return tensors.at("a") + tensors.at("b");
}

TORCH_LIBRARY(encore_test, m) {
  for (const char* name : {"fails", "stumbles", "grows", "flips", "retypes", "counts", "draws", "asks"}) {
    m.def((std::string(name) + "(Tensor self) -> Tensor").c_str());
  }
  m.def("splits(Tensor self) -> Tensor[]");
  m.def("mapped(Dict(str, Tensor) tensors) -> Tensor");
}

TORCH_LIBRARY_IMPL(encore_test, CPU, m) {
  m.impl("fails", fails);
  m.impl("stumbles", stumbles);
  m.impl("grows", grows);
  m.impl("flips", flips);
  m.impl("retypes", retypes);
  m.impl("counts", counts);
  m.impl("draws", draws);
  m.impl("asks", asks);
  m.impl("splits", splits);
}
TORCH_LIBRARY_IMPL(encore_test, CompositeExplicitAutograd, m) {
  m.impl("mapped", mapped);
}

c10::OperatorHandle find(const std::string& name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(("encore_test::" + name).c_str(), "");
}

class FailingAllocator final : public c10::Allocator {
 public:
  explicit FailingAllocator(c10::Allocator* inner) : inner_(inner) {}
  at::DataPtr allocate(size_t nbytes) ENCORE_ALLOCATE_CONST override {
    if (armed && nbytes > larger_than && allowed-- <= 0) {
      failed = true;
      TORCH_CHECK(false, "test: can't allocate memory: you tried to allocate ", nbytes, " bytes");
    }
    return inner_->allocate(nbytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return inner_->raw_deleter(); }
  ENCORE_ALLOCATOR_COPY_DATA

  mutable std::atomic<int> allowed{0};
  mutable std::atomic<bool> failed{false};
  std::atomic<size_t> larger_than{0};
  std::atomic<bool> armed{false};

 private:
  c10::Allocator* inner_;
};

FailingAllocator& failing() {
  static auto* allocator = [] {
    live_tensor_bytes();  // Encore's allocator must be there before it is wrapped
    auto* made = new FailingAllocator(c10::GetAllocator(c10::kCPU));
    c10::SetAllocator(c10::kCPU, made, /*priority=*/2);
    return made;
  }();
  return *allocator;
}

}  // namespace

at::Tensor call(const char* name, const at::Tensor& tensor) {
  return find(name).typed<at::Tensor(const at::Tensor&)>().call(tensor);
}

std::vector<at::Tensor> call_splits(const at::Tensor& tensor) {
  return find("splits").typed<std::vector<at::Tensor>(const at::Tensor&)>().call(tensor);
}

at::Tensor call_mapped(const at::Tensor& a, const at::Tensor& b) {
  c10::Dict<std::string, at::Tensor> tensors;
  tensors.insert("a", a);
  tensors.insert("b", b);
  torch::jit::Stack stack{tensors};
  find("mapped").callBoxed(stack);
  return stack.front().toTensor();
}

void fail_from_now_on() {
  g_fail = true;
}

void reset() {
  g_fail = false;
  g_runs = 0;
}

int64_t runs() {
  return g_runs;
}

LittleMemory::LittleMemory(int allowed, size_t larger_than) {
  FailingAllocator& allocator = failing();
  allocator.allowed = allowed;
  allocator.larger_than = larger_than;
  allocator.failed = false;
  allocator.armed = true;
}

LittleMemory::~LittleMemory() {
  failing().armed = false;
}

bool LittleMemory::has_failed() const {
  return failing().failed;
}

}  // namespace encore::test::custom_ops
