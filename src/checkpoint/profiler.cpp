// Accounts of what checkpoints do.
#include <encore/profiler.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include <encore/bytes.h>
#include <encore/error.h>
#include <encore/memory.h>

#include "base/plain_numbers.h"
#include "host/host.h"
#include "record/stream.h"

namespace encore {

/// Regions wait in the tally from their end until a backward begins: only then does it show what was really freed.
class CheckpointProfiler::Tally final : public record::Subscriber {
 public:
  void region_opened(const std::shared_ptr<record::ObservedRegion>& region) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_.push_back(std::make_shared<Watched>(region));
  }

  void region_closed(const std::shared_ptr<record::ObservedRegion>& region) override {
    const bool saved_anything = region->figures().saved_anything();
    const std::lock_guard<std::mutex> lock(mutex_);
    auto watched =
        std::find_if(watched_.begin(), watched_.end(), [&](const auto& each) { return each->region.lock() == region; });
    if (watched == watched_.end()) {  // opened before anybody listened
      watched_.push_back(std::make_shared<Watched>(region));
      watched = std::prev(watched_.end());
    }
    (*watched)->closed = true;
    (*watched)->saved_anything = (*watched)->saved_anything || saved_anything;
  }

  void replayed(const record::ReplayEvent& event) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    CheckpointRow& row = row_of(event.label);
    row.ops_replayed += event.ops;
    row.replay_ns += event.own_ns;
    row.replays.push_back({event.ops, event.own_ns, event.live_bytes_before, event.live_bytes_after});
    report_.ops_replayed += event.ops;
    report_.replay_ns += event.own_ns;
  }

  void marked(const std::string& label, const std::string& reason) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++report_.checkpoint_count;
    ++row_of(label).calls;
    if (!reason.empty()) {
      warn(label, reason);
    }
  }

  void ran_plainly(const std::string& label, const std::string& reason) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++report_.checkpoint_count;
    ++row_of(label).calls;
    warn(label, reason);
  }

  /// Regions are asked without the lock: they take the locks of their tapes.
  void backward_begins() override {
    std::vector<std::shared_ptr<Watched>> watched;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      watched = watched_;
    }
    std::vector<record::RegionFigures> now(watched.size());
    for (size_t i = 0; i < watched.size(); ++i) {
      if (const auto region = watched[i]->region.lock()) {
        now[i] = region->figures();
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = counted_.begin(); entry != counted_.end();) {
      entry = entry->first.expired() ? counted_.erase(entry) : std::next(entry);
    }
    for (size_t i = 0; i < watched.size(); ++i) {
      // Another thread may have finished it meanwhile.
      const auto place = std::find(watched_.begin(), watched_.end(), watched[i]);
      if (place == watched_.end()) {
        continue;
      }
      add_values(*watched[i], now[i]);
      if (watched[i]->closed) {
        finish(*watched[i], now[i]);
        watched_.erase(place);
      }
    }
  }

  ProfilerReport report() {
    backward_begins();
    const std::lock_guard<std::mutex> lock(mutex_);
    return report_;
  }

  void reset() {
    const std::lock_guard<std::mutex> lock(mutex_);
    watched_.clear();
    report_ = ProfilerReport();
    indices_.clear();
    counted_.clear();
  }

 private:
  struct Watched {
    explicit Watched(const std::shared_ptr<record::ObservedRegion>& observed)
        : region(observed), label(observed->label()), is_checkpoint(observed->is_checkpoint()) {}

    std::weak_ptr<record::ObservedRegion> region;
    std::string label;
    bool is_checkpoint;
    bool closed = false;
    bool saved_anything = false;
    int64_t own_values = 0;  // dropped by the region's policy, not by a mark
    int64_t bytes_saved = 0;
    int64_t bytes_alive = 0;
    int64_t values_kept = 0;
    int64_t bytes_kept = 0;
    std::set<int64_t> done;  // storages that an earlier backward found dropped, while the region was open
  };

  void add_values(Watched& watched, const record::RegionFigures& now) {
    watched.saved_anything = watched.saved_anything || now.saved_anything();
    for (const record::DroppedValue& value : now.dropped) {
      if (!watched.done.insert(value.storage).second) {
        continue;
      }
      CheckpointRow& row = row_of(value.marked ? watched.label + "/" + value.op : watched.label);
      ++row.values_dropped;
      (value.freed ? row.bytes_saved : row.bytes_still_alive) += value.bytes;
      if (!value.marked) {
        ++watched.own_values;
        (value.freed ? watched.bytes_saved : watched.bytes_alive) += value.bytes;
      } else if (!value.freed) {
        warn(row.name, kStillAlive);
      }
      if (value.freed && counted_[value.owner].insert(value.storage).second) {
        report_.memory_saved_bytes += value.bytes;
      }
    }
    watched.values_kept = std::max(watched.values_kept, now.kept_by_policy + now.kept_by_need);
    watched.bytes_kept = std::max(watched.bytes_kept, now.bytes_kept);
  }

  void finish(const Watched& watched, const record::RegionFigures& now) {
    if (!watched.is_checkpoint && watched.own_values == 0) {
      return;  // a scope that only records
    }
    CheckpointRow& row = row_of(watched.label);
    ++row.calls;
    ++report_.checkpoint_count;
    row.values_kept += watched.values_kept;
    row.bytes_kept += watched.bytes_kept;
    if (watched.bytes_saved > 0) {
      return;
    }
    if (!watched.saved_anything) {
      warn(watched.label,
           "autograd saved nothing that was made inside: no input or parameter requires a gradient, or backward needs "
           "only what entered");
    } else if (watched.bytes_alive > 0) {
      warn(watched.label, kStillAlive);
    } else if (watched.region.expired() && watched.values_kept == 0) {
      warn(watched.label, "its graph was dropped before a backward");
    } else if (now.kept_by_policy > 0) {
      warn(watched.label, "its policy keeps all " + std::to_string(now.kept_by_policy) + " values that were saved");
    } else {
      warn(watched.label, "all that was saved came from ops that can't be run again, and is kept");
    }
  }

  static constexpr const char* kStillAlive = "what it dropped is still held by something else";

  CheckpointRow& row_of(const std::string& label) {
    const auto [entry, is_new] = indices_.emplace(label, report_.rows.size());
    if (is_new) {
      report_.rows.emplace_back();
      report_.rows.back().name = label;
    }
    return report_.rows[entry->second];
  }

  void warn(const std::string& label, const std::string& reason) {
    for (CheckpointWarning& warning : report_.warnings) {
      if (warning.name == label && warning.reason == reason) {
        ++warning.calls;
        return;
      }
    }
    report_.warnings.push_back({label, reason, 1});
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Watched>> watched_;  // open, or closed and no backward since
  ProfilerReport report_;
  std::map<std::string, size_t> indices_;
  // Storages whose bytes are in the total, by what they belong to: a weak pointer is never mistaken for a later one.
  std::map<std::weak_ptr<const void>, std::set<int64_t>, std::owner_less<>> counted_;
};

namespace {

void prepare() {
  live_tensor_bytes();  // from here on the allocator counts
  host::ensure_engine();
}

std::string cell(const std::string& text, int width) {
  return std::string(text.size() < static_cast<size_t>(width) ? static_cast<size_t>(width) - text.size() : 0, ' ') +
         text;
}

std::string milliseconds(int64_t ns) {
  return number_text("%.2f ms", static_cast<double>(ns) / 1e6);
}

}  // namespace

CheckpointProfiler::CheckpointProfiler() : tally_(std::make_shared<Tally>()) {
  prepare();
  record::listen(tally_);
}

CheckpointProfiler::~CheckpointProfiler() {
  record::stop_listening(tally_);
}

ProfilerReport CheckpointProfiler::report() const {
  return tally_->report();
}

struct CheckpointProfiler::Process {
  std::mutex mutex;
  bool started = false;
  bool on = false;
  std::shared_ptr<Tally> tally = std::make_shared<Tally>();

  static Process& instance() {
    static auto* process = new Process;  // outlives every listener's last call
    return *process;
  }
};

void CheckpointProfiler::start_tracking() {
  prepare();
  Process& process = Process::instance();
  const std::lock_guard<std::mutex> lock(process.mutex);
  process.started = true;
  if (!std::exchange(process.on, true)) {
    record::listen(process.tally);
  }
}

void CheckpointProfiler::stop_tracking() {
  Process& process = Process::instance();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (std::exchange(process.on, false)) {
    process.tally->report();  // what was freed by now
    record::stop_listening(process.tally);
  }
}

void CheckpointProfiler::reset() {
  Process::instance().tally->reset();
}

ProfilerReport CheckpointProfiler::tracked() {
  Process& process = Process::instance();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (!process.started) {
    throw ScopeError(
        "profiler: start_tracking was never called; a scoped CheckpointProfiler has its figures in report()");
  }
  return process.tally->report();
}

int64_t CheckpointProfiler::memory_saved() {
  return tracked().memory_saved_bytes;
}

int64_t CheckpointProfiler::checkpoint_count() {
  return tracked().checkpoint_count;
}

std::string ProfilerReport::text() const {
  size_t width = 10;
  for (const CheckpointRow& row : rows) {
    width = std::max(width, row.name.size());
  }
  const auto line = [&](const std::string& name, const std::vector<std::string>& cells) {
    std::string text = name + std::string(width - name.size(), ' ');
    for (const std::string& each : cells) {
      text += cell(each, 12);
    }
    return text + "\n";
  };
  std::string text = line("checkpoint", {"calls", "dropped", "kept", "saved", "still alive", "ops again", "time"});
  for (const CheckpointRow& row : rows) {
    text +=
        line(row.name, {std::to_string(row.calls), std::to_string(row.values_dropped), std::to_string(row.values_kept),
                        format_bytes(row.bytes_saved), format_bytes(row.bytes_still_alive),
                        std::to_string(row.ops_replayed), milliseconds(row.replay_ns)});
  }
  text += line("total", {std::to_string(checkpoint_count), "", "", format_bytes(memory_saved_bytes), "",
                         std::to_string(ops_replayed), milliseconds(replay_ns)});
  for (const CheckpointWarning& warning : warnings) {
    text += "warning: " + warning.name + " saved nothing, " + std::to_string(warning.calls) +
            (warning.calls == 1 ? " time: " : " times: ") + warning.reason + "\n";
  }
  return text;
}

}  // namespace encore
