// The CPU allocator that counts, keeps a limit, and gives freed blocks out again.
#pragma once

#include "run/meter.h"
#include "tape/torch.h"

namespace encore::run {

/// What this thread allocates is for `account` while it lives.
class AccountScope {
 public:
  explicit AccountScope(Account account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

  /// Of what this thread allocates now.
  static Account current();

 private:
  Account outer_;
};

/// Books the storage's bytes as tracked. False if they are not in kOther, or not from this allocator.
bool track(const c10::Storage& storage);
/// Books them as kOther again: no step knows them any more.
void untrack(const c10::Storage& storage);

/// Counts the storage if LibTorch's own allocator made it before the slot was taken; from here on it leaves the count
/// when it is freed. True if its bytes are counted, now or before; false for memory that is nobody's allocator's.
bool adopt(const c10::Storage& storage);

/// The slot is taken when the library is loaded. Throws SlotError if somebody else held it then.
void ensure_allocator();
/// Throws SlotError also if what holds the slot now does not allocate through ours.
void ensure_counting();

}  // namespace encore::run
