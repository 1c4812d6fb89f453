// What happens to regions, told to whoever listens. Costs one atomic read where nobody does.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace encore::run {

/// A value that autograd saved and a region dropped.
struct DroppedValue {
  std::weak_ptr<const void> owner;  // with `storage`: which bytes
  int64_t storage = 0;
  int64_t bytes = 0;
  bool freed = false;   // nobody else keeps the bytes in memory
  bool marked = false;  // by checkpoint(tensor)
  std::string op;
};

/// What a region has done with what autograd saved in it, as it is now.
struct RegionFigures {
  std::vector<DroppedValue> dropped;
  int64_t kept_by_policy = 0;
  int64_t kept_by_need = 0;  // can't be recomputed
  int64_t bytes_kept = 0;

  bool saved_anything() const { return !dropped.empty() || kept_by_policy + kept_by_need > 0; }
};

class ObservedRegion {
 public:
  virtual ~ObservedRegion() = default;
  virtual std::string label() const = 0;
  /// False for a scope that only records.
  virtual bool is_checkpoint() const = 0;
  virtual RegionFigures figures() const = 0;
};

struct ReplayEvent {
  std::string label;
  int64_t ops = 0;
  int64_t duration_ns = 0;  // without replays nested in it
  int64_t live_bytes_before = 0;
  int64_t live_bytes_after = 0;
};

/// Called from any thread; calls may overlap. Must not throw.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void region_opened(const std::shared_ptr<ObservedRegion>& region) = 0;
  virtual void region_closed(const std::shared_ptr<ObservedRegion>& region) = 0;
  virtual void replayed(const ReplayEvent& event) = 0;
  /// A tensor was marked; `reason` says why it stays all the same, empty if it does not.
  virtual void marked(const std::string& label, const std::string& reason) = 0;
  /// A checkpoint ran as if it were none.
  virtual void ran_plainly(const std::string& label, const std::string& reason) = 0;
  /// A backward is about to begin.
  virtual void backward_begins() = 0;
};

void add_listener(std::shared_ptr<Listener> listener);
void remove_listener(const std::shared_ptr<Listener>& listener);

extern std::atomic<int> g_listeners;
inline bool anyone_listens() {
  return g_listeners.load(std::memory_order_relaxed) > 0;
}

void tell_region_opened(const std::shared_ptr<ObservedRegion>& region);
void tell_region_closed(const std::shared_ptr<ObservedRegion>& region);
void tell_marked(const std::string& label, const std::string& reason);
void tell_ran_plainly(const std::string& label, const std::string& reason);
void tell_backward_begins();

/// Times one replay and tells of it when it ends well.
class ReplayTimer {
 public:
  ReplayTimer();
  ~ReplayTimer();
  ReplayTimer(const ReplayTimer&) = delete;
  ReplayTimer& operator=(const ReplayTimer&) = delete;
  void done(const std::string& label, int64_t ops);

 private:
  bool listening_;
  int64_t start_ns_ = 0;
  int64_t live_bytes_ = 0;
  int64_t outer_nested_ns_ = 0;
};

}  // namespace encore::run
