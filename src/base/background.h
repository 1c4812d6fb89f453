// Work that goes on beside the caller's, on a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace encore {

/// One piece of work at a time. Its owner uses it from one thread at a time; the work shares nothing with it. The
/// destructor waits until the work has noticed that nobody wants it any more.
template <class Result>
class Background {
 public:
  /// To be called now and then by the work: throws when the work is to stop.
  using Alive = std::function<void()>;
  static constexpr std::chrono::milliseconds kForever{-1};

  Background() = default;
  Background(Background&& other) noexcept { swap(other); }
  Background& operator=(Background&& other) noexcept {
    swap(other);
    return *this;
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {
    if (result_.valid() && is_another_process()) {
      (void)new std::future<Result>(std::move(result_));  // its thread stayed in the process that forked
    } else if (result_.valid()) {
      stop_->store(true);
      if (result_.wait_for(std::chrono::seconds(0)) != std::future_status::deferred) {
        result_.wait();
      }
    }
  }

  bool is_busy() const { return result_.valid() && !is_another_process(); }

  /// Not while it is busy. Where the system has no thread to give, who takes the result does the work.
  void start(std::function<Result(const Alive&)> work) {
    Background fresh;
    fresh.process_ = getpid();
    fresh.stop_ = std::make_shared<std::atomic<bool>>(false);
    const auto run = [work = std::move(work), stop = fresh.stop_] {
      return work([&stop] {
        if (stop->load()) {
          throw Stopped();
        }
      });
    };
    try {
      fresh.result_ = std::async(std::launch::async, run);
    } catch (const std::system_error&) {  // no thread is to be had
      fresh.result_ = std::async(std::launch::deferred, run);
    }
    swap(fresh);
  }

  /// What came of it, if that is there by then; throws what the work threw.
  std::optional<Result> take(std::chrono::milliseconds patience) {
    if (!is_busy()) {
      return std::nullopt;
    }
    if (patience == kForever) {
      result_.wait();
    } else if (result_.wait_for(patience) == std::future_status::timeout) {
      return std::nullopt;
    }
    return std::exchange(result_, {}).get();
  }

 private:
  struct Stopped {};

  bool is_another_process() const { return process_ != getpid(); }
  void swap(Background& other) noexcept {
    std::swap(result_, other.result_);
    std::swap(stop_, other.stop_);
    std::swap(process_, other.process_);
  }

  std::future<Result> result_;
  std::shared_ptr<std::atomic<bool>> stop_;
  pid_t process_ = 0;
};

}  // namespace encore
