// What Gloo takes by `new[]` while it reduces, measured, is what DataParallel::scratch_bytes() says.
#include "worker.h"

#include <malloc.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

namespace {

/// Blocks of new[] from other threads than the main one, while `counts`.
struct Arrays {
  std::atomic<bool> counts{false};
  std::mutex mutex;
  std::array<void*, 64> blocks{};
  int64_t live = 0;
  int64_t peak = 0;
  std::thread::id main = std::this_thread::get_id();

  void made(void* block) {
    const auto nbytes = static_cast<int64_t>(malloc_usable_size(block));
    if (nbytes < 4096 || std::this_thread::get_id() == main) {
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex);
    for (void*& place : blocks) {
      if (place == nullptr) {
        place = block;
        live += nbytes;
        peak = std::max(peak, live);
        return;
      }
    }
  }
  void freed(void* block) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (void*& place : blocks) {
      if (place == block) {
        place = nullptr;
        live -= static_cast<int64_t>(malloc_usable_size(block));
      }
    }
  }
};
Arrays arrays;

}  // namespace

void* operator new[](size_t nbytes) {
  void* block = std::malloc(nbytes);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  if (arrays.counts) {
    arrays.made(block);
  }
  return block;
}

void operator delete[](void* block) noexcept {
  if (arrays.counts && block != nullptr) {
    arrays.freed(block);
  }
  std::free(block);
}

void operator delete[](void* block, size_t) noexcept {
  operator delete[](block);
}

namespace worker {

void scratch_of_gloo(const World& world) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(256, 512), torch::nn::Linear(512, 512), torch::nn::Linear(512, 16));
  encore::DataParallelOptions options;
  options.bucket_bytes = 700 << 10;
  encore::DataParallel parallel(*net, world.group, options);
  const at::Tensor x = torch::ones({4, 256});
  for (int step = 0; step < 6; ++step) {
    const at::Tensor loss = net->forward(x).square().mean();
    arrays.counts = step > 0;
    loss.backward();
  }
  arrays.counts = false;
  const int64_t predicted = parallel.scratch_bytes();
  std::cout << "Gloo's scratch: " << arrays.peak << " bytes, predicted at most " << predicted << std::endl;
  if (world.size > 1) {
    const int64_t rounding = 8 << 10;  // malloc's, for two blocks
    expect(arrays.peak <= predicted + rounding, "Gloo takes more than predicted");
    expect(arrays.peak >= predicted / 2, "Gloo takes much less than predicted");
  }
}

}  // namespace worker
