// The CPU allocator that counts, keeps a limit, and gives freed blocks out again. Exported for its own tests only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <encore/export.h>

#include "tape/torch.h"

namespace encore::run {

/// What bytes are for, as far as a memory budget tells them apart.
enum class Account : uint8_t {
  kOther,     ///< everything that nobody has claimed
  kTracked,   ///< values that replay could bring back
  kReplayed,  ///< allocated by a replay
};

/// Called before an allocation would pass the limit.
class ENCORE_API Limiter {
 public:
  virtual ~Limiter() = default;
  /// Frees something, or throws; called again until the allocation fits. `shortage` of the `nbytes` asked for are
  /// missing. On the allocating thread, which may hold any lock but the meter's.
  virtual void make_room(int64_t shortage, int64_t nbytes) = 0;
};

/// Counts of one process. Every change and every reading happens under its lock, so peaks are exact.
class ENCORE_API Meter {
 public:
  static Meter& instance();

  /// Counts bytes that are about to be allocated, after making room for them where there is a limit.
  void add(int64_t bytes, Account account);
  void remove(int64_t bytes, Account account);
  void move(int64_t bytes, Account from, Account to);

  int64_t live() const;
  int64_t live(Account account) const;
  int64_t peak() const;
  void reset_peak();

  /// The most that Account::kOther has been since the last call.
  int64_t take_other_peak();
  /// The same for all accounts together.
  int64_t take_live_peak();

  /// `peak` follows the largest live count until it is unwatched.
  void watch(int64_t* peak);
  void unwatch(int64_t* peak);
  int64_t read(const int64_t* peak) const;

  static constexpr int64_t kNoLimit = INT64_MAX;
  /// From here on live() never exceeds `bytes`; a null limiter takes the limit off.
  void set_limit(int64_t bytes, std::shared_ptr<Limiter> limiter);
  int64_t limit() const;

 private:
  mutable std::mutex mutex_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
  std::array<int64_t, 3> accounts_{};
  int64_t other_peak_ = 0;
  int64_t live_peak_ = 0;
  std::vector<int64_t*> watchers_;
  int64_t limit_ = kNoLimit;
  std::shared_ptr<Limiter> limiter_;
};

/// What this thread allocates is for `account` while it lives.
class ENCORE_API AccountScope {
 public:
  explicit AccountScope(Account account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  Account outer_;
};

/// Books the storage's bytes as tracked. False if they are not in kOther, or not from this allocator.
ENCORE_API bool track(const c10::Storage& storage);

/// Takes the CPU allocator slot on first use. Throws SlotError if it is not LibTorch's own allocator that holds it.
void ensure_allocator();

}  // namespace encore::run
