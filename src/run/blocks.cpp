// Extents of free pages: best fit, neighbours joined, the longest held given back first.
#include "run/blocks.h"

#include <algorithm>

#include <malloc.h>
#include <sys/mman.h>

#include <c10/core/impl/alloc_cpu.h>

#include "run/meter.h"
#include "run/small_blocks.h"

namespace encore::run {
namespace {

// Below this whole pages would waste too much. Above it malloc's heap would be left with holes: a budget of 9.7 MB on
// many blocks of this size made the process grow by 26 MB with a bound of 128 KiB here, by 18 MB with this one.
constexpr size_t kSmallestMappedBytes = size_t{32} << 10;
// Blocks that live on are worth large pages: a fault for each 2 MiB in place of one for each 4 KiB.
constexpr size_t kLargePagesFromBytes = size_t{4} << 20;
constexpr size_t kPageBytes = 4096;
// malloc is asked for what it holds of freed small blocks whenever this part of the ceiling was mapped anew.
constexpr int64_t kHeapCheckPart = 64;
constexpr int64_t kSmallestHeapBytes = int64_t{1} << 20;

size_t whole_pages(size_t nbytes) {
  return (nbytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

char* map_pages(size_t nbytes) {
  void* start = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) {
    return nullptr;
  }
  if (nbytes >= kLargePagesFromBytes) {
    madvise(start, nbytes, MADV_HUGEPAGE);  // where it is refused, nothing is lost
  }
  return static_cast<char*>(start);
}

void unmap_pages(char* start, size_t nbytes) {
  if (munmap(start, nbytes) != 0) {  // no more mappings may be made: it would cut one in two
    madvise(start, nbytes, MADV_DONTNEED);
  }
}

}  // namespace

Blocks& Blocks::instance() {
  static auto* blocks = new Blocks;  // tensors may be freed after static destructors have run
  return *blocks;
}

Block Blocks::take(size_t nbytes) {
  if (nbytes <= small_blocks::kLargestBytes) {
    return {small_blocks::take(nbytes), nbytes, false};
  }
  if (nbytes < kSmallestMappedBytes || users_.load(std::memory_order_relaxed) == 0) {
    return {static_cast<char*>(c10::alloc_cpu(nbytes)), nbytes, false};
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t pages = whole_pages(nbytes);
  if (const auto fit = by_size_.lower_bound({pages, nullptr}); fit != by_size_.end()) {
    return cut(by_place_.find(fit->second), pages);
  }
  trim_to(room());
  count_mapped(pages);
  char* start = map_pages(pages);
  if (start == nullptr) {
    trim_to(0);
    start = map_pages(pages);
  }
  if (start == nullptr) {  // the number of mappings has a limit of its own
    return {static_cast<char*>(c10::alloc_cpu(nbytes)), nbytes, false};
  }
  return {start, pages, true};
}

void Blocks::put(const Block& block) noexcept {
  if (block.nbytes <= small_blocks::kLargestBytes) {
    small_blocks::put(block.start, block.nbytes);
    return;
  }
  if (!block.mapped) {
    c10::free_cpu(block.start);
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (users_ == 0) {
    unmap_pages(block.start, block.nbytes);
    return;
  }
  add(block.start, {block.nbytes, ++clock_});
}

Block Blocks::cut(Extents::iterator extent, size_t nbytes) {
  char* start = extent->first;
  const Extent whole = extent->second;
  erase(extent);
  if (whole.nbytes > nbytes) {
    add(start + nbytes, {whole.nbytes - nbytes, whole.age});
  }
  return {start, nbytes, true};
}

void Blocks::add(char* start, Extent extent) {
  auto next = by_place_.lower_bound(start);
  if (next != by_place_.end() && next->first == start + extent.nbytes) {
    extent.nbytes += next->second.nbytes;
    extent.age = std::max(extent.age, next->second.age);
    erase(next++);
  }
  if (next != by_place_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.nbytes == start) {
      start = before->first;
      extent.nbytes += before->second.nbytes;
      extent.age = std::max(extent.age, before->second.age);
      erase(before);
    }
  }
  by_place_.emplace(start, extent);
  by_size_.emplace(extent.nbytes, start);
  by_age_.emplace(extent.age, start);
  held_bytes_ += static_cast<int64_t>(extent.nbytes);
}

void Blocks::erase(Extents::iterator extent) {
  by_size_.erase({extent->second.nbytes, extent->first});
  by_age_.erase({extent->second.age, extent->first});
  held_bytes_ -= static_cast<int64_t>(extent->second.nbytes);
  by_place_.erase(extent);
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

void Blocks::give_back() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    trim_to(0);
    if (users_ > 0) {
      Meter::instance().unwatch(&peak_);
      Meter::instance().watch(&peak_);  // the ceiling is what is live from here on
    }
  }
  small_blocks::give_back();
  malloc_trim(0);
}

int64_t Blocks::held_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_bytes_;
}

int64_t Blocks::ceiling() const {
  const int64_t limit = Meter::instance().limit();
  return limit == Meter::kNoLimit ? Meter::instance().read(&peak_) : limit;
}

int64_t Blocks::room() const {
  return ceiling() - Meter::instance().live();
}

/// Small blocks that were freed lie in malloc's heap while large ones take their place in the count.
void Blocks::count_mapped(size_t mapped) {
  mapped_bytes_ += static_cast<int64_t>(mapped);
  if (mapped_bytes_ > ceiling() / kHeapCheckPart) {
    mapped_bytes_ = 0;
    trim_heap(ceiling());
  }
}

void Blocks::trim_heap(int64_t ceiling) {
  const int64_t most = std::max(ceiling / kHeapCheckPart, kSmallestHeapBytes);
  if (static_cast<int64_t>(mallinfo2().fordblks) > most) {
    malloc_trim(0);
  }
}

void Blocks::trim_to(int64_t bytes) {
  bytes = std::max<int64_t>(0, bytes);
  while (held_bytes_ > bytes) {
    const auto extent = by_place_.find(by_age_.begin()->second);
    char* start = extent->first;
    Extent rest = extent->second;
    const size_t excess = std::min(rest.nbytes, whole_pages(static_cast<size_t>(held_bytes_ - bytes)));
    erase(extent);
    rest.nbytes -= excess;
    unmap_pages(start + rest.nbytes, excess);
    if (rest.nbytes > 0) {
      add(start, rest);
    }
  }
}

}  // namespace encore::run
