// The list of listeners.
#include "run/events.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/clock.h"
#include "run/allocator.h"

namespace encore::run {
namespace {

std::mutex g_mutex;
std::vector<std::shared_ptr<Listener>>& listeners() {
  static auto* list = new std::vector<std::shared_ptr<Listener>>;  // outlives every thread's last backward
  return *list;
}

template <class Tell>
void tell(const Tell& tell_one) {
  std::vector<std::shared_ptr<Listener>> now;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    now = listeners();
  }
  for (const auto& listener : now) {
    tell_one(*listener);
  }
}

thread_local int64_t g_nested_ns = 0;  // spent in replays inside the one that this thread runs

}  // namespace

std::atomic<int> g_listeners{0};

void add_listener(std::shared_ptr<Listener> listener) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  listeners().push_back(std::move(listener));
  ++g_listeners;
}

void remove_listener(const std::shared_ptr<Listener>& listener) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  auto& list = listeners();
  const auto found = std::find(list.begin(), list.end(), listener);
  if (found != list.end()) {
    list.erase(found);
    --g_listeners;
  }
}

void tell_region_opened(const std::shared_ptr<ObservedRegion>& region) {
  tell([&](Listener& listener) { listener.region_opened(region); });
}

void tell_region_closed(const std::shared_ptr<ObservedRegion>& region) {
  tell([&](Listener& listener) { listener.region_closed(region); });
}

void tell_marked(const std::string& label, const std::string& reason) {
  tell([&](Listener& listener) { listener.marked(label, reason); });
}

void tell_ran_plainly(const std::string& label, const std::string& reason) {
  tell([&](Listener& listener) { listener.ran_plainly(label, reason); });
}

void tell_backward_begins() {
  tell([](Listener& listener) { listener.backward_begins(); });
}

ReplayTimer::ReplayTimer() : listening_(anyone_listens()) {
  if (listening_) {
    live_bytes_ = Meter::instance().live();
    outer_nested_ns_ = std::exchange(g_nested_ns, 0);
    start_ns_ = now_ns();
  }
}

ReplayTimer::~ReplayTimer() {
  if (listening_) {
    g_nested_ns = outer_nested_ns_ + now_ns() - start_ns_;
  }
}

void ReplayTimer::done(const std::string& label, int64_t ops) {
  if (listening_) {
    const ReplayEvent event{label, ops, now_ns() - start_ns_ - g_nested_ns, live_bytes_, Meter::instance().live()};
    tell([&](Listener& listener) { listener.replayed(event); });
  }
}

}  // namespace encore::run
