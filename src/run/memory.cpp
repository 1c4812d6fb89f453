// The public view of the counting allocator.
#include <encore/memory.h>

#include <encore/error.h>

#include "run/allocator.h"
#include "run/blocks.h"
#include "tape/compat.h"

namespace encore {
namespace {

run::Meter& cpu_meter() {
  run::ensure_allocator();
  return run::Meter::instance();
}

}  // namespace

int64_t live_tensor_bytes(c10::Device device) {
  return device.is_cpu() ? cpu_meter().live() : compat::device_bytes(device).live;
}

int64_t peak_tensor_bytes(c10::Device device) {
  return device.is_cpu() ? cpu_meter().peak() : compat::device_bytes(device).peak;
}

void reset_peak_tensor_bytes(c10::Device device) {
  if (device.is_cpu()) {
    cpu_meter().reset_peak();
  } else {
    compat::reset_device_peak(device);
  }
}

struct MemoryScope::Impl {
  int64_t start = 0;
  int64_t peak = 0;
};

MemoryScope::MemoryScope() : impl_(std::make_unique<Impl>()) {
  cpu_meter().watch(&impl_->peak);
  impl_->start = run::Meter::instance().read(&impl_->peak);  // another thread may be allocating
}

MemoryScope::~MemoryScope() {
  run::Meter::instance().unwatch(&impl_->peak);
}

int64_t MemoryScope::start_bytes() const {
  return impl_->start;
}

int64_t MemoryScope::peak_bytes() const {
  return run::Meter::instance().read(&impl_->peak);
}

BlockReuse::BlockReuse() {
  run::ensure_allocator();
  run::Blocks::instance().begin_reuse();
}

BlockReuse::~BlockReuse() {
  run::Blocks::instance().end_reuse();
}

int64_t BlockReuse::held_bytes() {
  return run::Blocks::instance().held_bytes();
}

}  // namespace encore
