// Blocks of the same size, most recently freed first.
#include "run/blocks.h"

#include <algorithm>

#include <sys/mman.h>

#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>

#include "run/allocator.h"

namespace encore::run {
namespace {

// Below this malloc reuses well by itself.
constexpr size_t kSmallest = size_t{64} << 10;
// Blocks that live on are worth large pages: a fault for each 2 MiB in place of one for each 4 KiB.
constexpr size_t kLargePages = size_t{4} << 20;
constexpr uintptr_t kPage = 4096;

void advise_large_pages(char* block, size_t nbytes) {
  const size_t before = -reinterpret_cast<uintptr_t>(block) % kPage;          // the first page that is all the block's
  madvise(block + before, (nbytes - before) / kPage * kPage, MADV_HUGEPAGE);  // where it is refused, nothing is lost
}

}  // namespace

Blocks& Blocks::instance() {
  static auto* blocks = new Blocks;  // tensors may be freed after static destructors have run
  return *blocks;
}

char* Blocks::take(size_t nbytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_ == 0) {
    return static_cast<char*>(c10::alloc_cpu(nbytes));
  }
  if (const auto fit = held_.find(nbytes); fit != held_.end()) {
    char* block = fit->second.block;
    held_.erase(fit);
    held_bytes_ -= static_cast<int64_t>(nbytes);
    return block;
  }
  trim_to(room());
  char* block = nullptr;
  try {
    block = static_cast<char*>(c10::alloc_cpu(nbytes));
  } catch (const c10::Error&) {
    if (held_.empty()) {
      throw;
    }
    trim_to(0);
    block = static_cast<char*>(c10::alloc_cpu(nbytes));
  }
  if (nbytes >= kLargePages) {
    advise_large_pages(block, nbytes);
  }
  return block;
}

void Blocks::put(char* block, size_t nbytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_ == 0 || nbytes < kSmallest) {
    c10::free_cpu(block);
    return;
  }
  held_.insert(held_.lower_bound(nbytes), {nbytes, {block, ++clock_}});
  held_bytes_ += static_cast<int64_t>(nbytes);
}

void Blocks::begin_reuse() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_++ == 0) {
    Meter::instance().watch(&peak_);
  }
}

void Blocks::end_reuse() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--users_ == 0) {
    Meter::instance().unwatch(&peak_);
    trim_to(0);
  }
}

void Blocks::trim() {
  const std::lock_guard<std::mutex> lock(mutex_);
  trim_to(room());
}

int64_t Blocks::held_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_bytes_;
}

int64_t Blocks::room() const {
  const Meter& meter = Meter::instance();
  const int64_t limit = meter.limit();
  return (limit == Meter::kNoLimit ? meter.read(&peak_) : limit) - meter.live();
}

void Blocks::trim_to(int64_t bytes) {
  while (held_bytes_ > std::max<int64_t>(0, bytes)) {
    const auto oldest = std::min_element(held_.begin(), held_.end(),
                                         [](const auto& a, const auto& b) { return a.second.age < b.second.age; });
    held_bytes_ -= static_cast<int64_t>(oldest->first);
    c10::free_cpu(oldest->second.block);
    held_.erase(oldest);
  }
}

}  // namespace encore::run
