// Running what may hang: a store whose host is stopped never answers.
#pragma once

#include <future>
#include <thread>

namespace encore::dist {

/// Runs f on a thread that is left alone if nobody waits for it; f must own what it uses.
template <class F>
auto apart(F f) {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

/// Whether f ended, without an exception, in that time.
template <class F>
bool within(std::chrono::milliseconds patience, F f) {
  auto result = apart(std::move(f));
  if (result.wait_for(patience) != std::future_status::ready) {
    return false;
  }
  try {
    result.get();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace encore::dist
