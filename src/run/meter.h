// Counts tensor bytes, exactly, and keeps a limit on them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <encore/export.h>

namespace encore::run {

/// What bytes are for, as far as a memory budget tells them apart.
enum class Account : uint8_t {
  kOther,     ///< everything that nobody has claimed
  kTracked,   ///< values that replay could bring back
  kReplayed,  ///< allocated by a replay
};

/// Called before an allocation would pass the limit.
class Limiter {
 public:
  virtual ~Limiter() = default;
  /// Frees something, takes the limit off, or throws; called again until the allocation fits. `shortage` of the
  /// `nbytes` asked for are missing. On the allocating thread, which may hold any lock but the meter's.
  virtual void make_room(int64_t shortage, int64_t nbytes) = 0;
};

/// What the meter must know of a block to count it out again.
struct Counted {
  int64_t bytes = 0;
  Account account = Account::kOther;
  uint8_t slot = 0;     // of the thread that allocated it
  uint32_t period = 0;  // of birth, see Meter::begin_births; 0: none was open
  uint32_t moment = 0;  // in that period
};

/// Counts of one process.
///
/// While nobody watches (no limit, no peak to follow), an allocation adds to the slot of its thread and is done: the
/// lock of a slot is hardly ever contended. While somebody does, all counts change under one lock, so that peaks are
/// exact and the limit is kept to the byte. Slots change sides one by one under both locks, so that no byte is counted
/// twice or lost on the way, and who has either knows which side a slot is on.
class Meter {
 public:
  static Meter& instance();

  /// Counts bytes that are about to be allocated, after making room for them where there is a limit.
  Counted add(int64_t bytes, Account account);
  /// Counts bytes that are there already, whatever the limit says.
  Counted adopt(int64_t bytes);
  void remove(const Counted& block);
  /// Books a block of Account::kOther as tracked; false if it is not there.
  bool track(Counted& block);
  /// Books a tracked block as Account::kOther again.
  void untrack(Counted& block);

  int64_t live() const;
  int64_t live(Account account) const;
  struct Live {
    int64_t all = 0;
    int64_t other = 0;  // Account::kOther
  };
  /// A small number that stands for the thread; after many threads numbers are given out again.
  static uint8_t slot_of_this_thread();
  /// Of blocks that the thread of that number did not allocate, of any account.
  int64_t live_of_other_threads(uint8_t slot) const;

  /// The most that was live at once since the first call, or the last reset.
  int64_t peak();
  void reset_peak();

  /// The most that was live since the last call. Needs a watcher or a limit.
  Live take_peaks();

  /// `peak` follows the largest live count until it is unwatched.
  void watch(int64_t* peak);
  void unwatch(int64_t* peak);
  int64_t read(const int64_t* peak) const;

  /// From here on it is known which bytes of Account::kOther were allocated at which moment and are still there. Needs
  /// a watcher or a limit.
  void begin_births();
  /// Blocks that are allocated from here on are born at this moment. Tells what is live now.
  Live set_moment(uint32_t moment);
  /// By moment; ends what begin_births() began.
  std::vector<int64_t> end_births();

  static constexpr int64_t kNoLimit = INT64_MAX;
  /// From here on live() never exceeds `bytes`; a null limiter takes the limit off.
  void set_limit(int64_t bytes, std::shared_ptr<Limiter> limiter);
  /// Moves the limit that this limiter has put on; false if it has put on none.
  bool lower_limit(int64_t bytes, const Limiter& limiter);
  int64_t limit() const;

  /// Around a fork: the child must not find a lock that a thread of its parent held.
  void lock_all();
  void unlock_all();

 private:
  static constexpr size_t kSlots = 256;  // a thread's number modulo this: Counted::slot
  using Accounts = std::array<int64_t, 3>;

  struct alignas(64) Slot {
    mutable std::atomic<bool> locked{false};
    std::atomic<bool> central{
        false};             // counts are with the meter: what follows is under its lock, else under the slot's
    Accounts accounts{};    // while not central
    int64_t allocated = 0;  // by threads of this slot and still there, on both sides

    void lock() const;
    void unlock() const { locked.store(false, std::memory_order_release); }
  };

  bool count_apart(const Counted& block, int64_t sign);
  void move(Counted& block, Account to);
  Counted add_watched(int64_t bytes, Account account, bool is_limited);
  void count(const Counted& block, int64_t sign);
  void change_watchers(int change);
  int64_t live_locked() const;

  mutable std::mutex mutex_;  // of what follows; taken before slots' locks
  int watchers_count_ = 0;
  bool follows_peak_ = false;
  int64_t live_ = 0;  // this and the rest while central
  int64_t peak_ = 0;
  Accounts accounts_{};
  int64_t other_peak_ = 0;
  int64_t live_peak_ = 0;
  std::vector<int64_t*> watchers_;
  int64_t limit_ = kNoLimit;
  std::shared_ptr<Limiter> limiter_;
  uint32_t period_ = 0;
  bool counts_births_ = false;
  uint32_t moment_ = 0;
  std::vector<int64_t> births_;
  std::array<Slot, kSlots> slots_;
};

/// In a child of a process with an open step, whose limit is none of the child's business.
ENCORE_API void forget_limit();

}  // namespace encore::run
