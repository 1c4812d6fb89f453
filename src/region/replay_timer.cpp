// Replays nest: what an inner one takes is not the outer one's own.
#include "region/replay_timer.h"

#include "base/clock.h"
#include "run/meter.h"

namespace encore::region {
namespace {

thread_local int64_t g_nested_ns = 0;  // spent in replays inside the one that this thread runs

int64_t live_bytes() {
  return record::anyone_listens() ? run::Meter::instance().live() : 0;
}

}  // namespace

ReplayTimer::ReplayTimer()
    : live_bytes_(live_bytes()), outer_nested_ns_(std::exchange(g_nested_ns, 0)), start_ns_(now_ns()) {}

ReplayTimer::~ReplayTimer() {
  g_nested_ns = outer_nested_ns_ + now_ns() - start_ns_;
}

record::ReplayEvent ReplayTimer::done(const std::string& label, int64_t ops) const {
  const int64_t duration_ns = now_ns() - start_ns_;
  const record::ReplayEvent event{label,       ops,         start_ns_, duration_ns, duration_ns - g_nested_ns,
                                  live_bytes_, live_bytes()};
  record::tell_listeners(&record::Subscriber::replayed, event);
  return event;
}

}  // namespace encore::region
