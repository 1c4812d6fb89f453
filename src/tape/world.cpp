// Reading and setting the switches of LibTorch and of the processor.
#include "tape/world.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace encore::tape {
namespace {

#if defined(__SSE2__)
constexpr uint32_t kExceptionFlags = 0x3F;  // set by whatever was computed before

uint32_t float_control_now() {
  return _mm_getcsr() & ~kExceptionFlags;
}
void set_float_control(uint32_t control) {
  _mm_setcsr(control | (_mm_getcsr() & kExceptionFlags));
}
#else
uint32_t float_control_now() {
  return 0;
}
void set_float_control(uint32_t) {}
#endif

}  // namespace

World World::now() {
  const at::Context& context = at::globalContext();
  World world;
  world.default_dtype = c10::get_default_dtype_as_scalartype();
  world.threads = at::get_num_threads();
  world.float_control = float_control_now();
  world.precision = compat::float_precision();
  world.onednn = context.userEnabledMkldnn();
  world.deterministic = context.deterministicAlgorithms();
  world.deterministic_warns = context.deterministicAlgorithmsWarnOnly();
  return world;
}

void World::enter() const {
  const World present = now();
  at::Context& context = at::globalContext();
  if (default_dtype != present.default_dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_dtype));
  }
  if (threads != present.threads) {
    at::set_num_threads(threads);
  }
  if (float_control != present.float_control) {
    set_float_control(float_control);
  }
  if (!(precision == present.precision)) {
    compat::set_float_precision(precision);
  }
  if (onednn != present.onednn) {
    context.setUserEnabledMkldnn(onednn);
  }
  if (deterministic != present.deterministic || deterministic_warns != present.deterministic_warns) {
    context.setDeterministicAlgorithms(deterministic, deterministic_warns);
  }
}

bool World::operator==(const World& other) const {
  return default_dtype == other.default_dtype && threads == other.threads && float_control == other.float_control &&
         precision == other.precision && onednn == other.onednn && deterministic == other.deterministic &&
         deterministic_warns == other.deterministic_warns;
}

}  // namespace encore::tape
