// LibTorch's CPU allocation with the size kept in front of each block.
#include "run/allocator.h"

#include <typeinfo>

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>

#include <encore/error.h>

#include "tape/compat.h"

namespace encore::run {
namespace {

// A block is [size, padding to the alignment][the tensor's bytes]. The pointer that LibTorch sees is both the data and
// the deleter's context, as oneDNN's paths demand, and the size in front of it is exactly what was asked for.
constexpr size_t kHeaderBytes = c10::gAlignment;
static_assert(kHeaderBytes >= sizeof(size_t));

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  c10::profiledCPUMemoryReporter().Delete(data);
  char* block = static_cast<char*>(data) - kHeaderBytes;
  Meter::instance().remove(static_cast<int64_t>(*reinterpret_cast<size_t*>(block)));
  c10::free_cpu(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t nbytes) ENCORE_ALLOCATE_CONST override {
    if (nbytes == 0) {
      return {nullptr, nullptr, &release, at::Device(at::kCPU)};
    }
    auto* block = static_cast<char*>(c10::alloc_cpu(nbytes + kHeaderBytes));
    *reinterpret_cast<size_t*>(block) = nbytes;
    Meter::instance().add(static_cast<int64_t>(nbytes));
    void* data = block + kHeaderBytes;
    c10::profiledCPUMemoryReporter().New(data, nbytes);
    return {data, data, &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  ENCORE_ALLOCATOR_COPY_DATA
};

}  // namespace

Meter& Meter::instance() {
  static auto* meter = new Meter;  // tensors may be freed after static destructors have run
  return *meter;
}

void Meter::add(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  for (int64_t* watcher : watchers_) {
    *watcher = std::max(*watcher, live_);
  }
}

void Meter::remove(int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_ -= bytes;
}

int64_t Meter::live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_;
}

int64_t Meter::peak() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peak_;
}

void Meter::reset_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  peak_ = live_;
}

void Meter::watch(int64_t* peak) {
  const std::lock_guard<std::mutex> lock(mutex_);
  *peak = live_;
  watchers_.push_back(peak);
}

void Meter::unwatch(int64_t* peak) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watchers_.erase(std::find(watchers_.begin(), watchers_.end(), peak));
}

int64_t Meter::read(const int64_t* peak) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return *peak;
}

void ensure_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    const c10::Allocator* present = c10::GetAllocator(c10::kCPU);
    if (present != c10::GetDefaultCPUAllocator()) {
      throw SlotError(std::string("memory: the CPU allocator of this process is ") + typeid(*present).name() +
                      ", not LibTorch's own; bytes can't be counted. Call encore before it is installed");
    }
    static auto* allocator = new CountingAllocator;
    c10::SetAllocator(c10::kCPU, allocator, /*priority=*/1);
  });
}

}  // namespace encore::run
