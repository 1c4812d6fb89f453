// The settings of the process and the thread on which an op's result depends, taken and put back.
#pragma once

#include "tape/compat.h"
#include "tape/torch.h"

namespace encore::tape {

/// Settings of LibTorch and of the processor that change what CPU kernels compute.
struct World {
  at::ScalarType default_dtype = at::kFloat;
  int threads = 1;
  uint32_t float_control = 0;  // denormals and rounding, of this thread
  compat::FloatPrecision precision{};
  bool onednn = true;
  bool deterministic = false;
  bool deterministic_warns = false;

  static World now();
  /// Makes the settings so. All but `float_control` are of the whole process, as LibTorch has them.
  void enter() const;

  bool operator==(const World& other) const;
  bool operator!=(const World& other) const { return !(*this == other); }
};

/// Goes from one world to another as ops ask for it, and back to the first at its end.
class WorldGuard {
 public:
  WorldGuard() : before_(World::now()), now_(before_) {}
  ~WorldGuard() { enter(before_); }
  WorldGuard(const WorldGuard&) = delete;
  WorldGuard& operator=(const WorldGuard&) = delete;

  void enter(const World& world) {
    if (world != now_) {
      world.enter();
      now_ = world;
    }
  }

 private:
  World before_;
  World now_;
};

/// While it lives, no transform or mode that is open on this thread (vmap, functionalisation, a tracer) sees its ops.
class CleanDispatch {
 public:
  CleanDispatch() : CleanDispatch(c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})) {}
  /// With the keys that were there at another time.
  explicit CleanDispatch(c10::impl::LocalDispatchKeySet keys) : before_(c10::impl::tls_local_dispatch_key_set()) {
    c10::impl::_force_tls_local_dispatch_key_set(keys);
  }
  ~CleanDispatch() { c10::impl::_force_tls_local_dispatch_key_set(before_); }
  CleanDispatch(const CleanDispatch&) = delete;
  CleanDispatch& operator=(const CleanDispatch&) = delete;

 private:
  c10::impl::LocalDispatchKeySet before_;
};

}  // namespace encore::tape
