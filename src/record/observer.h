// LibTorch's callbacks for one thread, shared by all who want them.
#pragma once

#include <algorithm>
#include <utility>

#include <ATen/record_function.h>

namespace encore::record {

/// One observer a thread, however many recorders stand behind each other. Of ops with their arguments and results; and,
/// where somebody wants it, of backward nodes without: they go on where the observer of ops rests.
class Observer {
 public:
  /// As LibTorch does it. Taking off does nothing where the thread is at its end: LibTorch's own memory of what was put
  /// on goes with the thread's variables, and objects of static storage go after those.
  static at::CallbackHandle put_on(const at::RecordFunctionCallback& callback);
  static void take_off(at::CallbackHandle handle);

  void add(const at::RecordFunctionCallback& callback) {
    if (users_++ == 0) {
      handle_ = put_on(callback);
    }
  }
  void remove() {
    if (users_ == 0) {
      --resting_;
    } else if (--users_ == 0) {
      take_off(handle_);
    }
  }

  /// Takes the observer off for those who have put it on so far; returns how many they are.
  int rest() {
    const int users = std::exchange(users_, 0);
    if (users > 0) {
      take_off(handle_);
    }
    resting_ += users;
    return users;
  }
  /// Puts it on again for as many of them as are still there.
  void resume(int users, const at::RecordFunctionCallback& callback) {
    const int left = std::min(users, resting_);
    resting_ -= left;
    if (left > 0 && users_ == 0) {
      handle_ = put_on(callback);
    }
    users_ += left;
  }

  void add_nodes(const at::RecordFunctionCallback& callback) {
    if (node_users_++ == 0) {
      node_handle_ = put_on(callback);
    }
  }
  void remove_nodes() {
    if (--node_users_ == 0) {
      take_off(node_handle_);
    }
  }

 private:
  int users_ = 0;
  int resting_ = 0;
  int node_users_ = 0;
  at::CallbackHandle handle_ = 0;
  at::CallbackHandle node_handle_ = 0;
};

}  // namespace encore::record
