// What counting costs: nanoseconds for allocating and freeing a block, by LibTorch's own allocator and by Encore's.
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include <c10/core/CPUAllocator.h>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

/// Each thread allocates and frees so many blocks; nanoseconds of one, by the slowest thread.
double nanoseconds(c10::Allocator& allocator, size_t nbytes, int threads, int rounds) {
  std::vector<std::thread> running;
  std::vector<double> results(static_cast<size_t>(threads));
  for (double& result : results) {
    running.emplace_back([&] {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < rounds; ++i) {
        const at::DataPtr block = allocator.allocate(nbytes);
        *static_cast<volatile char*>(block.get()) = 1;
      }
      result = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / rounds;
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  return *std::max_element(results.begin(), results.end());
}

/// The best of several rounds, both sides in turn.
void compare(const char* what, size_t nbytes, int threads) {
  constexpr int kRounds = 9;
  const int count = nbytes > 100'000 ? 20'000 : 200'000;
  double plain = 1e9;
  double counted = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    plain = std::min(plain, nanoseconds(*c10::GetDefaultCPUAllocator(), nbytes, threads, count));
    counted = std::min(counted, nanoseconds(*c10::GetAllocator(c10::kCPU), nbytes, threads, count));
  }
  std::printf("| %s | %zu | %d | %.0f | %.0f | %+.0f |\n", what, nbytes, threads, plain, counted, counted - plain);
}

void compare_all(const char* what) {
  for (const size_t nbytes : {size_t{256}, size_t{64} << 10, size_t{1} << 20}) {
    for (const int threads : {1, 2, 4}) {
      compare(what, nbytes, threads);
    }
  }
}

}  // namespace

int main() {
  std::printf("| Encore | bytes | threads | LibTorch's ns | Encore's ns | difference |\n|---|---|---|---|---|---|\n");
  compare_all("idle");
  {
    const encore::MemoryScope watching;
    compare_all("a MemoryScope");
  }
  {
    const encore::BlockReuse reuse;
    compare_all("BlockReuse, as in a budget");
  }
}
