// Two ways of counting: by thread while nobody watches, under one lock while somebody does.
#include "run/meter.h"

#include <algorithm>
#include <thread>

namespace encore::run {
namespace {

size_t index_of(Account account) {
  return static_cast<size_t>(account);
}

}  // namespace

Meter& Meter::instance() {
  static auto* meter = new Meter;  // tensors may be freed after static destructors have run
  return *meter;
}

void Meter::Slot::lock() const {
  for (int spins = 0; locked.exchange(true, std::memory_order_acquire); ++spins) {
    if (spins > 100) {
      std::this_thread::yield();
    }
  }
}

uint8_t Meter::slot_of_this_thread() {
  static std::atomic<uint32_t> next{0};
  thread_local const auto mine = static_cast<uint8_t>(next++ % kSlots);
  return mine;
}

Counted Meter::add(int64_t bytes, Account account) {
  const uint8_t mine = slot_of_this_thread();
  const Counted block{bytes, account, mine};
  return count_apart(block, 1) ? block : add_watched(bytes, account, /*is_limited=*/true);
}

/// In the block's slot alone; false if that is with the meter.
bool Meter::count_apart(const Counted& block, int64_t sign) {
  Slot& slot = slots_[block.slot];
  if (slot.central.load(std::memory_order_acquire)) {
    return false;
  }
  slot.lock();
  const bool apart = !slot.central.load(std::memory_order_relaxed);
  if (apart) {
    slot.accounts[index_of(block.account)] += sign * block.bytes;
    slot.allocated += sign * block.bytes;
  }
  slot.unlock();
  return apart;
}

Counted Meter::adopt(int64_t bytes) {
  return add_watched(bytes, Account::kOther, /*is_limited=*/false);
}

Counted Meter::add_watched(int64_t bytes, Account account, bool is_limited) {
  Counted block{bytes, account, slot_of_this_thread()};
  std::unique_lock<std::mutex> lock(mutex_);
  while (is_limited && limiter_ && bytes > limit_ - live_) {
    const std::shared_ptr<Limiter> limiter = limiter_;
    const int64_t shortage = live_ + bytes - limit_;
    lock.unlock();
    limiter->make_room(shortage, bytes);
    lock.lock();
  }
  if (counts_births_) {
    block.period = period_;
    block.moment = moment_;
  }
  count(block, 1);
  return block;
}

void Meter::remove(const Counted& block) {
  if (!count_apart(block, -1)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    count(block, -1);
  }
}

/// Under the meter's lock: slots may have changed sides since the caller looked.
void Meter::count(const Counted& block, int64_t sign) {
  if (count_apart(block, sign)) {
    return;
  }
  slots_[block.slot].allocated += sign * block.bytes;
  live_ += sign * block.bytes;
  accounts_[index_of(block.account)] += sign * block.bytes;
  if (counts_births_ && block.period == period_ && block.account == Account::kOther) {
    births_[block.moment] += sign * block.bytes;
  }
  if (sign > 0) {
    peak_ = std::max(peak_, live_);
    live_peak_ = std::max(live_peak_, live_);
    other_peak_ = std::max(other_peak_, accounts_[index_of(Account::kOther)]);
    for (int64_t* watcher : watchers_) {
      *watcher = std::max(*watcher, live_);
    }
  }
}

bool Meter::track(Counted& block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (block.account != Account::kOther) {
    return false;
  }
  if (counts_births_ && block.period == period_) {
    births_[block.moment] -= block.bytes;
  }
  move(block, Account::kTracked);
  return true;
}

void Meter::untrack(Counted& block) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (block.account == Account::kTracked) {
    move(block, Account::kOther);
  }
}

/// Callers hold the lock.
void Meter::move(Counted& block, Account to) {
  Slot& slot = slots_[block.slot];
  const auto move_in = [&](Accounts& accounts) {
    accounts[index_of(block.account)] -= block.bytes;
    accounts[index_of(to)] += block.bytes;
  };
  if (slot.central.load(std::memory_order_relaxed)) {
    move_in(accounts_);
  } else {
    slot.lock();
    move_in(slot.accounts);
    slot.unlock();
  }
  block.account = to;
}

/// With the first watcher all slots' counts go to the meter, with the last one new counts begin with the slots again.
void Meter::change_watchers(int change) {
  const bool was_central = watchers_count_ > 0;
  watchers_count_ += change;
  const bool central = watchers_count_ > 0;
  if (was_central == central) {
    return;
  }
  for (Slot& slot : slots_) {
    slot.lock();
    slot.central.store(central, std::memory_order_release);
    for (size_t i = 0; i < accounts_.size(); ++i) {
      accounts_[i] += std::exchange(slot.accounts[i], 0);
    }
    slot.unlock();
  }
  live_ = accounts_[0] + accounts_[1] + accounts_[2];
  other_peak_ = accounts_[index_of(Account::kOther)];
  live_peak_ = live_;
}

int64_t Meter::live_locked() const {
  int64_t live = accounts_[0] + accounts_[1] + accounts_[2];
  for (const Slot& slot : slots_) {
    slot.lock();
    live += slot.accounts[0] + slot.accounts[1] + slot.accounts[2];
    slot.unlock();
  }
  return live;
}

int64_t Meter::live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return watchers_count_ > 0 ? live_ : live_locked();
}

int64_t Meter::live(Account account) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t live = accounts_[index_of(account)];
  if (watchers_count_ > 0) {
    return live;  // all counts are here
  }
  for (const Slot& slot : slots_) {
    slot.lock();
    live += slot.accounts[index_of(account)];
    slot.unlock();
  }
  return live;
}

int64_t Meter::live_of_other_threads(uint8_t slot) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t live = 0;
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].lock();
    live += i == slot ? 0 : slots_[i].allocated;
    slots_[i].unlock();
  }
  return live;
}

int64_t Meter::peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(follows_peak_, true)) {
    change_watchers(1);
    peak_ = live_;
  }
  return peak_;
}

void Meter::reset_peak() {
  peak();
  const std::lock_guard<std::mutex> lock(mutex_);
  peak_ = live_;
}

Meter::Live Meter::take_peaks() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {std::exchange(live_peak_, live_), std::exchange(other_peak_, accounts_[index_of(Account::kOther)])};
}

void Meter::watch(int64_t* peak) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change_watchers(1);
  *peak = live_;
  watchers_.push_back(peak);
}

void Meter::unwatch(int64_t* peak) {
  const std::lock_guard<std::mutex> lock(mutex_);
  watchers_.erase(std::find(watchers_.begin(), watchers_.end(), peak));
  change_watchers(-1);
}

int64_t Meter::read(const int64_t* peak) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return *peak;
}

void Meter::begin_births() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++period_;
  moment_ = 0;
  births_.assign(1, 0);
  counts_births_ = true;
}

Meter::Live Meter::set_moment(uint32_t moment) {
  const std::lock_guard<std::mutex> lock(mutex_);
  moment_ = moment;
  births_.resize(std::max<size_t>(births_.size(), moment + 1), 0);
  return {live_, accounts_[index_of(Account::kOther)]};
}

std::vector<int64_t> Meter::end_births() {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_births_ = false;
  return std::move(births_);
}

void Meter::set_limit(int64_t bytes, std::shared_ptr<Limiter> limiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  change_watchers((limiter ? 1 : 0) - (limiter_ ? 1 : 0));
  limit_ = limiter ? bytes : kNoLimit;
  limiter_.swap(limiter);
}

bool Meter::lower_limit(int64_t bytes, const Limiter& limiter) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (limiter_.get() != &limiter) {
    return false;
  }
  limit_ = bytes;
  return true;
}

int64_t Meter::limit() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return limit_;
}

void Meter::lock_all() {
  mutex_.lock();
  for (const Slot& slot : slots_) {
    slot.lock();
  }
}

void Meter::unlock_all() {
  for (const Slot& slot : slots_) {
    slot.unlock();
  }
  mutex_.unlock();
}

void forget_limit() {
  Meter::instance().set_limit(0, nullptr);
}

}  // namespace encore::run
