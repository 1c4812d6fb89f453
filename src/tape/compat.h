// Every difference between the LibTorch versions that Encore supports (1.13, 2.6, 2.14) lives in this file.
#pragma once

#include <atomic>
#include <cstring>

#include <ATen/Context.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/version.h>

#include <encore/error.h>

#include "tape/torch.h"

#define ENCORE_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if ENCORE_TORCH_AT_LEAST(2, 9)
#include <c10/core/CachingDeviceAllocator.h>
#endif

// c10::Allocator::allocate lost its const and gained a sibling in 2.1.
#if ENCORE_TORCH_AT_LEAST(2, 1)
#define ENCORE_ALLOCATE_CONST
#define ENCORE_ALLOCATOR_COPY_DATA                                               \
  void copy_data(void* to, const void* from, std::size_t count) const override { \
    std::memcpy(to, from, count);                                                \
  }
#else
#define ENCORE_ALLOCATE_CONST const
#define ENCORE_ALLOCATOR_COPY_DATA
#endif

namespace torch::autograd {
struct Node;
}

namespace encore::compat {

/// What zero_grad() does with gradients if nothing is said: lets them go, or fills them with zeros.
constexpr bool kZeroGradLetsGo = ENCORE_TORCH_AT_LEAST(2, 0);

inline void* data_of(const c10::Storage& storage) {
#if ENCORE_TORCH_AT_LEAST(2, 1)
  return storage.mutable_data();
#else
  return storage.data();
#endif
}

/// Puts another deleter in the place of `expected`; false if it is not there.
inline bool exchange_deleter(const c10::Storage& storage, c10::DeleterFnPtr expected, c10::DeleterFnPtr deleter) {
#if ENCORE_TORCH_AT_LEAST(2, 1)
  return storage.mutable_data_ptr().compare_exchange_deleter(expected, deleter);
#else
  return storage.unsafeGetStorageImpl()->data_ptr().compare_exchange_deleter(expected, deleter);
#endif
}

/// Stands for the counter itself: tensors that share it show each other's changes. LibTorch has no way to ask.
inline const void* identity_of(const c10::VariableVersion& counter) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*), "a version counter is one pointer");
  const void* identity = nullptr;
  std::memcpy(&identity, &counter, sizeof(identity));
  return identity;
}

/// Sets a counter that is enabled back, for bytes that are as they were.
inline void set_version(c10::VariableVersion& counter, uint32_t version) {
#if ENCORE_TORCH_AT_LEAST(2, 1)
  counter.set_version(version);
#else
  // LibTorch's own struct is private and has no other members.
  struct Counter : c10::intrusive_ptr_target {
    std::atomic<uint32_t> version;
  };
  static_cast<Counter*>(const_cast<void*>(identity_of(counter)))->version = version;
#endif
}

/// How exactly kernels of the CPU compute with floats: one setting, from 2.10 on one for each kind of op, which may be
/// inherited from a more general one.
#if ENCORE_TORCH_AT_LEAST(2, 10)
struct FloatPrecision {
  at::Float32Precision matmul = at::Float32Precision::NONE;
  at::Float32Precision convolution = at::Float32Precision::NONE;
  at::Float32Precision recurrent = at::Float32Precision::NONE;

  bool operator==(const FloatPrecision& other) const {
    return matmul == other.matmul && convolution == other.convolution && recurrent == other.recurrent;
  }
};

inline FloatPrecision float_precision() {
  const auto of = [](at::Float32Op op) { return at::globalContext().float32Precision(at::Float32Backend::MKLDNN, op); };
  return {of(at::Float32Op::MATMUL), of(at::Float32Op::CONV), of(at::Float32Op::RNN)};
}

inline void set_float_precision(const FloatPrecision& wanted) {
  const auto set = [](at::Float32Op op, at::Float32Precision precision) {
    using at::Float32Precision;
    constexpr auto kBackend = at::Float32Backend::MKLDNN;
    at::Context& context = at::globalContext();
    if (context.float32Precision(kBackend, op) == precision) {
      return;
    }
    context.setFloat32Precision(kBackend, op, Float32Precision::NONE);  // inherited, where that gives the same
    if (context.float32Precision(kBackend, op) != precision) {
      context.setFloat32Precision(kBackend, op,
                                  precision == Float32Precision::NONE ? Float32Precision::IEEE : precision);
    }
  };
  set(at::Float32Op::MATMUL, wanted.matmul);
  set(at::Float32Op::CONV, wanted.convolution);
  set(at::Float32Op::RNN, wanted.recurrent);
}
#else
using FloatPrecision = at::Float32MatmulPrecision;
inline FloatPrecision float_precision() {
  return at::globalContext().float32MatmulPrecision();
}
inline void set_float_precision(FloatPrecision wanted) {
  at::globalContext().setFloat32MatmulPrecision(wanted);
}
#endif

inline bool autocast_on_cpu() {
#if ENCORE_TORCH_AT_LEAST(2, 4)
  return at::autocast::is_autocast_enabled(at::kCPU);
#else
  return at::autocast::is_cpu_enabled();
#endif
}

inline at::ScalarType autocast_cpu_dtype() {
#if ENCORE_TORCH_AT_LEAST(2, 4)
  return at::autocast::get_autocast_dtype(at::kCPU);
#else
  return at::autocast::get_autocast_cpu_dtype();
#endif
}

inline void set_autocast_on_cpu(bool enabled, at::ScalarType dtype) {
#if ENCORE_TORCH_AT_LEAST(2, 4)
  at::autocast::set_autocast_enabled(at::kCPU, enabled);
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
#else
  at::autocast::set_cpu_enabled(enabled);
  at::autocast::set_autocast_cpu_dtype(dtype);
#endif
}

/// While it lives, TorchScript runs what it has not optimized yet as it is written, on this thread. Its executor would
/// otherwise save other tensors the second time a function is called.
class UnoptimizedScript {
 public:
  UnoptimizedScript() : optimized_(torch::jit::getGraphExecutorOptimize()) {
    torch::jit::setGraphExecutorOptimize(false);
  }
  ~UnoptimizedScript() { torch::jit::setGraphExecutorOptimize(optimized_); }
  UnoptimizedScript(const UnoptimizedScript&) = delete;
  UnoptimizedScript& operator=(const UnoptimizedScript&) = delete;

 private:
  bool optimized_;
};

/// Autocast on the CPU, on or off, while it lives.
class AutocastCpu {
 public:
  AutocastCpu(bool enabled, at::ScalarType dtype) : enabled_(autocast_on_cpu()), dtype_(autocast_cpu_dtype()) {
    at::autocast::increment_nesting();
    set_autocast_on_cpu(enabled, dtype);
  }
  ~AutocastCpu() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    set_autocast_on_cpu(enabled_, dtype_);
  }
  AutocastCpu(const AutocastCpu&) = delete;
  AutocastCpu& operator=(const AutocastCpu&) = delete;

 private:
  bool enabled_;
  at::ScalarType dtype_;
};

/// Saved-tensor hooks that the user has set on this thread, which only Python can.
struct UserHooks {
  size_t depth = 0;
  bool forbidden = false;  // by disable_saved_tensors_hooks, or while a compiler traces; from 2.12 on nobody asks then
};
inline UserHooks user_hooks() {
  const at::impl::SavedTensorDefaultHooksTLS& state = at::SavedTensorDefaultHooks::get_tls_state();
  UserHooks hooks{state.stack.size(), state.disabled_error_message.has_value()};
#if ENCORE_TORCH_AT_LEAST(2, 1)
  hooks.forbidden = hooks.forbidden || state.is_tracing;
#endif
  return hooks;
}

/// Graph nodes are held by std::shared_ptr, from 2.12 on by c10::intrusive_ptr.
#if ENCORE_TORCH_AT_LEAST(2, 12)
using NodePtr = c10::intrusive_ptr<torch::autograd::Node>;
#else
using NodePtr = std::shared_ptr<torch::autograd::Node>;
#endif
template <class Node, class... Args>
auto make_node(Args&&... args) {
#if ENCORE_TORCH_AT_LEAST(2, 12)
  return c10::make_intrusive<Node>(std::forward<Args>(args)...);
#else
  return std::make_shared<Node>(std::forward<Args>(args)...);
#endif
}

struct DeviceBytes {
  int64_t live = 0;
  int64_t peak = 0;
};

#if ENCORE_TORCH_AT_LEAST(2, 9)
/// Null where there is none: c10::getDeviceAllocator calls that a bug of LibTorch's.
inline c10::DeviceAllocator* device_allocator(c10::Device device) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}
#endif

inline DeviceBytes device_bytes(c10::Device device) {
#if ENCORE_TORCH_AT_LEAST(2, 9)
  if (auto* allocator = device_allocator(device); allocator != nullptr && allocator->initialized()) {
    const auto stats = allocator->getDeviceStats(device.index());
    return {stats.allocated_bytes[0].current, stats.allocated_bytes[0].peak};
  }
#endif
  throw SlotError("memory: this LibTorch keeps no allocator statistics for " + device.str());
}

inline void reset_device_peak(c10::Device device) {
#if ENCORE_TORCH_AT_LEAST(2, 9)
  if (auto* allocator = device_allocator(device); allocator != nullptr && allocator->initialized()) {
    allocator->resetPeakStats(device.index());
    return;
  }
#endif
  throw SlotError("memory: this LibTorch keeps no allocator statistics for " + device.str());
}

}  // namespace encore::compat
