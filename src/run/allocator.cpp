// LibTorch's CPU allocation with a header in front of each block that says how it is counted.
#include "run/allocator.h"

#include <typeinfo>
#include <unordered_map>

#include <pthread.h>

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <encore/error.h>

#include "run/blocks.h"
#include "tape/compat.h"

namespace encore::run {
namespace {

thread_local Account g_account = Account::kOther;
thread_local int64_t g_allocations = 0;

// A block is [header, padding to the alignment][the tensor's bytes]. The pointer that LibTorch sees is both the data
// and the deleter's context, as oneDNN's paths demand.
struct Header {
  Counted counted;
  Block block;
};
constexpr size_t kHeaderBytes = c10::gAlignment;
static_assert(kHeaderBytes >= sizeof(Header));

Header& header_of(void* data) {
  return *reinterpret_cast<Header*>(static_cast<char*>(data) - kHeaderBytes);
}

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  c10::profiledCPUMemoryReporter().Delete(data);
  const Header header = header_of(data);
  Blocks::instance().put(header.block);
  Meter::instance().remove(header.counted);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t nbytes) ENCORE_ALLOCATE_CONST override {
    if (nbytes == 0) {
      return {nullptr, nullptr, &release, at::Device(at::kCPU)};
    }
    ++g_allocations;
    const Counted counted = Meter::instance().add(static_cast<int64_t>(nbytes), g_account);
    Block block;
    try {
      block = Blocks::instance().take(nbytes + kHeaderBytes);
    } catch (...) {
      Meter::instance().remove(counted);
      throw;
    }
    new (block.start) Header{counted, block};
    void* data = block.start + kHeaderBytes;
    c10::profiledCPUMemoryReporter().New(data, nbytes);
    return {data, data, &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  ENCORE_ALLOCATOR_COPY_DATA
};

/// What LibTorch's own allocator had made before ours took its place, as far as it was seen since.
struct Adopted {
  std::mutex mutex;
  std::unordered_map<void*, Counted> blocks;
};

Adopted& adopted() {
  static auto* adopted = new Adopted;  // tensors may be freed after static destructors have run
  return *adopted;
}

void release_adopted(void* data) {
  Counted counted;
  {
    const std::lock_guard<std::mutex> lock(adopted().mutex);
    const auto entry = adopted().blocks.find(data);
    counted = entry->second;
    adopted().blocks.erase(entry);
  }
  c10::GetDefaultCPUAllocator()->raw_deleter()(data);
  Meter::instance().remove(counted);
}

// A fork copies the locks as they are: the child would wait for threads that it does not have.
void before_fork() {
  adopted().mutex.lock();
  Blocks::instance().lock();
  Meter::instance().lock_all();
}
void after_fork() {
  Meter::instance().unlock_all();
  Blocks::instance().unlock();
  adopted().mutex.unlock();
}

c10::Allocator* g_ours = nullptr;

/// Before main(), so that whatever a program makes is counted. LibTorch has been loaded by then: this library needs it.
const bool g_is_installed = [] {
  if (c10::GetAllocator(c10::kCPU) != c10::GetDefaultCPUAllocator()) {
    return false;  // ensure_allocator() says so, if anybody asks
  }
  g_ours = new CountingAllocator;
  c10::SetAllocator(c10::kCPU, g_ours, /*priority=*/1);
  pthread_atfork(&before_fork, &after_fork, &after_fork);
  return true;
}();

}  // namespace

AccountScope::AccountScope(Account account) : outer_(std::exchange(g_account, account)) {}
AccountScope::~AccountScope() {
  g_account = outer_;
}
Account AccountScope::current() {
  return g_account;
}

bool track(const c10::Storage& storage) {
  void* data = compat::data_of(storage);
  return data != nullptr && storage.data_ptr().get_deleter() == &release &&
         Meter::instance().track(header_of(data).counted);
}

void untrack(const c10::Storage& storage) {
  void* data = compat::data_of(storage);
  if (data != nullptr && storage.data_ptr().get_deleter() == &release) {
    Meter::instance().untrack(header_of(data).counted);
  }
}

bool adopt(const c10::Storage& storage) {
  void* data = compat::data_of(storage);
  const at::DeleterFnPtr deleter = storage.data_ptr().get_deleter();
  if (data == nullptr || deleter == &release || deleter == &release_adopted) {
    return true;
  }
  if (deleter != c10::GetDefaultCPUAllocator()->raw_deleter()) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(adopted().mutex);
  if (compat::exchange_deleter(storage, deleter, &release_adopted)) {
    adopted().blocks.emplace(data, Meter::instance().adopt(static_cast<int64_t>(storage.nbytes())));
  }
  return true;
}

void ensure_allocator() {
  if (!g_is_installed) {
    throw SlotError(std::string("memory: the CPU allocator of this process is ") +
                    typeid(*c10::GetAllocator(c10::kCPU)).name() +
                    ", installed before Encore was loaded; bytes can't be counted. Load Encore first");
  }
}

void ensure_counting() {
  ensure_allocator();
  c10::Allocator* present = c10::GetAllocator(c10::kCPU);
  const int64_t before = g_allocations;
  if (present != g_ours && (present->allocate(1).get() == nullptr || g_allocations == before)) {
    throw SlotError(std::string("memory: the CPU allocator of this process is ") + typeid(*present).name() +
                    ", installed after Encore was loaded; bytes can't be counted. Take it off, or let it pass "
                    "allocations on to the one before it");
  }
}

}  // namespace encore::run
