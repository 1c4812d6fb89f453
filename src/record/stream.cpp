// Who listens to the process.
#include "record/stream.h"

#include <algorithm>
#include <mutex>

namespace encore::record {
namespace {

std::mutex g_mutex;
std::vector<std::shared_ptr<Subscriber>>& list() {
  static auto* list = new std::vector<std::shared_ptr<Subscriber>>;  // outlives every thread's last backward
  return *list;
}

}  // namespace

std::atomic<int> g_listeners{0};

void listen(std::shared_ptr<Subscriber> listener) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  list().push_back(std::move(listener));
  ++g_listeners;
}

void stop_listening(const std::shared_ptr<Subscriber>& listener) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = std::find(list().begin(), list().end(), listener);
  if (found != list().end()) {
    list().erase(found);
    --g_listeners;
  }
}

std::vector<std::shared_ptr<Subscriber>> listeners() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return list();
}

}  // namespace encore::record
