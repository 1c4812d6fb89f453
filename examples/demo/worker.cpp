// Processes and the pipes to them.
#include "worker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include <encore/error.h>

namespace demo {
namespace {

/// Whether all bytes came; the other side may end at any time.
bool receive(int from, void* bytes, size_t count) {
  auto* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t now = read(from, at, count);
    if (now <= 0) {
      return false;
    }
    at += now;
    count -= static_cast<size_t>(now);
  }
  return true;
}

bool transmit(int to, const void* bytes, size_t count) {
  const auto* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t now = write(to, at, count);
    if (now <= 0) {
      return false;
    }
    at += now;
    count -= static_cast<size_t>(now);
  }
  return true;
}

void serve(const std::function<StepInItsWay()>& begin, int requests, int results) {
  StepInItsWay step;
  int64_t limit = 0;
  while (receive(requests, &limit, sizeof limit)) {
    StepResult result;
    try {
      if (!step) {
        step = begin();
      }
      result = step(limit);
    } catch (const std::exception& error) {
      std::snprintf(result.refusal.data(), result.refusal.size(), "%s", error.what());
    }
    if (!transmit(results, &result, sizeof result)) {
      break;
    }
  }
}

}  // namespace

Worker::Worker(const std::function<StepInItsWay()>& begin) {
  std::signal(SIGPIPE, SIG_IGN);  // a worker that is gone is an error of step(), not the end of the demo
  std::array<int, 2> requests = {};
  std::array<int, 2> results = {};
  if (pipe(requests.data()) != 0 || pipe(results.data()) != 0) {
    throw encore::Error("demo: no pipe to a worker: " + std::string(std::strerror(errno)));
  }
  std::fflush(stdout);
  process_ = fork();
  if (process_ < 0) {
    throw encore::Error("demo: no process for a worker: " + std::string(std::strerror(errno)));
  }
  if (process_ == 0) {
    // Only the parent may hold the other ends: a worker must see the end of its requests when the parent ends. Those of
    // earlier workers are inherited as well.
    for (int other = 3; other < 1024; ++other) {
      if (other != requests[0] && other != results[1]) {
        close(other);
      }
    }
    serve(begin, requests[0], results[1]);
    _exit(0);
  }
  close(requests[0]);
  close(results[1]);
  requests_ = requests[1];
  results_ = results[0];
}

Worker::Worker(Worker&& other) noexcept
    : process_(std::exchange(other.process_, -1)), requests_(other.requests_), results_(other.results_) {}

Worker::~Worker() {
  if (process_ > 0) {
    close(requests_);
    close(results_);
    waitpid(process_, nullptr, 0);
  }
}

StepResult Worker::step(int64_t limit_bytes) {
  StepResult result;
  if (!transmit(requests_, &limit_bytes, sizeof limit_bytes) || !receive(results_, &result, sizeof result)) {
    throw encore::Error("demo: a worker ended early; was there too little memory?");
  }
  return result;
}

}  // namespace demo
