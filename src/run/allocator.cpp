// LibTorch's CPU allocation with size and account kept in front of each block.
#include "run/allocator.h"

#include <atomic>
#include <typeinfo>

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <encore/error.h>

#include "run/blocks.h"
#include "tape/compat.h"

namespace encore::run {
namespace {

thread_local Account g_account = Account::kOther;

// A block is [header, padding to the alignment][the tensor's bytes]. The pointer that LibTorch sees is both the data
// and the deleter's context, as oneDNN's paths demand, and the size in front of it is exactly what was asked for.
struct Header {
  size_t nbytes;
  std::atomic<Account> account;
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
  const size_t nbytes = header_of(data).nbytes;
  const Account account = header_of(data).account.load();
  Blocks::instance().put(static_cast<char*>(data) - kHeaderBytes, nbytes + kHeaderBytes);
  Meter::instance().remove(static_cast<int64_t>(nbytes), account);
}

class CountingAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t nbytes) ENCORE_ALLOCATE_CONST override {
    if (nbytes == 0) {
      return {nullptr, nullptr, &release, at::Device(at::kCPU)};
    }
    const Account account = g_account;
    Meter::instance().add(static_cast<int64_t>(nbytes), account);
    char* block = nullptr;
    try {
      block = Blocks::instance().take(nbytes + kHeaderBytes);
    } catch (...) {
      Meter::instance().remove(static_cast<int64_t>(nbytes), account);
      throw;
    }
    new (block) Header{nbytes, {account}};
    void* data = block + kHeaderBytes;
    c10::profiledCPUMemoryReporter().New(data, nbytes);
    return {data, data, &release, at::Device(at::kCPU)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &release; }
  ENCORE_ALLOCATOR_COPY_DATA
};

size_t index_of(Account account) {
  return static_cast<size_t>(account);
}

}  // namespace

AccountScope::AccountScope(Account account) : outer_(std::exchange(g_account, account)) {}
AccountScope::~AccountScope() {
  g_account = outer_;
}

bool track(const c10::Storage& storage) {
  void* data = compat::data_of(storage);
  if (data == nullptr || storage.data_ptr().get_deleter() != &release) {
    return false;
  }
  Account expected = Account::kOther;
  if (!header_of(data).account.compare_exchange_strong(expected, Account::kTracked)) {
    return false;
  }
  Meter::instance().move(static_cast<int64_t>(header_of(data).nbytes), Account::kOther, Account::kTracked);
  return true;
}

Meter& Meter::instance() {
  static auto* meter = new Meter;  // tensors may be freed after static destructors have run
  return *meter;
}

void Meter::add(int64_t bytes, Account account) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (bytes > limit_ - live_) {
    const std::shared_ptr<Limiter> limiter = limiter_;
    const int64_t shortage = live_ + bytes - limit_;
    lock.unlock();
    limiter->make_room(shortage, bytes);
    lock.lock();
  }
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  live_peak_ = std::max(live_peak_, live_);
  accounts_[index_of(account)] += bytes;
  other_peak_ = std::max(other_peak_, accounts_[index_of(Account::kOther)]);
  for (int64_t* watcher : watchers_) {
    *watcher = std::max(*watcher, live_);
  }
}

void Meter::remove(int64_t bytes, Account account) {
  const std::lock_guard<std::mutex> lock(mutex_);
  live_ -= bytes;
  accounts_[index_of(account)] -= bytes;
}

void Meter::move(int64_t bytes, Account from, Account to) {
  const std::lock_guard<std::mutex> lock(mutex_);
  accounts_[index_of(from)] -= bytes;
  accounts_[index_of(to)] += bytes;
}

int64_t Meter::live(Account account) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return accounts_[index_of(account)];
}

int64_t Meter::take_other_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(other_peak_, accounts_[index_of(Account::kOther)]);
}

int64_t Meter::take_live_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(live_peak_, live_);
}

void Meter::set_limit(int64_t bytes, std::shared_ptr<Limiter> limiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = limiter ? bytes : kNoLimit;
  limiter_.swap(limiter);
}

int64_t Meter::limit() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limit_;
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
