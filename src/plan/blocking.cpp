// Augmenting paths, found from the sinks. Values have capacities, reads have none.
#include "plan/blocking.h"

#include <algorithm>

namespace encore::plan {

Blocking::Blocking(const Reads& reads, const std::vector<int64_t>& bytes, const std::vector<char>& is_source)
    : reads_(reads),
      bytes_(bytes),
      is_source_(is_source),
      read_of_(reads.in.size()),
      along_(reads.in.size(), 0),
      through_(bytes.size(), 0),
      seen_(2 * bytes.size(), 0),
      closed_(bytes.size(), 0),
      is_sink_(bytes.size(), 0) {
  std::vector<int32_t> next(reads.out_at.begin(), reads.out_at.end() - 1);
  for (int32_t k = 0; k < static_cast<int32_t>(reads.in.size()); ++k) {
    read_of_[next[reads.in[k]]++] = k;
  }
}

int64_t Blocking::least(const std::vector<int32_t>& sinks, const std::vector<int32_t>& blocked, int64_t enough) {
  for (const int32_t read : used_reads_) {
    along_[read] = 0;
  }
  for (const int32_t value : used_values_) {
    through_[value] = 0;
  }
  used_reads_.clear();
  used_values_.clear();
  origins_.clear();
  for (const int32_t sink : sinks) {
    closed_[sink] = is_sink_[sink] = 1;
  }
  for (const int32_t value : blocked) {
    closed_[value] = 1;
  }
  // Most sinks read other sinks alone.
  open_.clear();
  for (const int32_t sink : sinks) {
    int32_t k = reads_.in_at[sink];
    while (k < reads_.in_at[sink + 1] && (closed_[reads_.in[k]] != 0 || bytes_[reads_.in[k]] == 0)) {
      ++k;
    }
    if (k < reads_.in_at[sink + 1]) {
      open_.push_back(sink);
    }
  }
  work_ += static_cast<int64_t>(sinks.size());
  int64_t flow = 0;
  // What was a dead end stays one for a round, more or less; a round that finds nothing says that there is nothing.
  for (bool found = true; found && flow < enough;) {
    found = false;
    ++stamp_;
    for (auto sink = open_.rbegin(); sink != open_.rend() && flow < enough; ++sink) {
      for (int64_t more = 1; more > 0 && flow < enough;) {
        more = search(*sink, enough - flow);
        flow += more;
        found = found || more > 0;
      }
    }
  }
  for (const int32_t sink : sinks) {
    closed_[sink] = is_sink_[sink] = 0;
  }
  for (const int32_t value : blocked) {
    closed_[value] = 0;
  }
  return flow;
}

bool Blocking::enter(int32_t node, int32_t way) {
  if (seen_[node] == stamp_) {
    return false;
  }
  seen_[node] = stamp_;
  const int32_t value = node / 2;
  path_.push_back({node, node % 2 == 0 ? reads_.in_at[value] : reads_.out_at[value] - 1, way});
  return node % 2 == 0 && is_source_[value] != 0;
}

int64_t Blocking::search(int32_t sink, int64_t most) {
  path_.clear();
  path_.push_back({2 * sink, reads_.in_at[sink], kThrough});
  while (!path_.empty()) {
    Place& place = path_.back();
    const int32_t value = place.node / 2;
    const int32_t k = place.next++;
    ++work_;
    bool arrived = false;
    if (place.node % 2 == 0) {
      if (k < reads_.in_at[value + 1]) {
        const int32_t input = reads_.in[k];
        if (bytes_[input] > 0 && closed_[input] == 0) {
          arrived = enter(2 * input + 1, k);
        }
      } else if (k == reads_.in_at[value + 1] && is_sink_[value] == 0 && through_[value] > 0) {
        arrived = enter(2 * value + 1, kBack);
      } else {
        path_.pop_back();
      }
    } else if (k < reads_.out_at[value]) {
      arrived = through_[value] < bytes_[value] && enter(2 * value, kThrough);
    } else if (k < reads_.out_at[value + 1]) {
      const int32_t read = read_of_[k];
      arrived = along_[read] > 0 && enter(2 * reads_.out[k], kUndo - read);
    } else {
      path_.pop_back();
    }
    if (arrived) {
      return send(most);
    }
  }
  return 0;
}

int64_t Blocking::send(int64_t most) {
  const size_t count = path_.size();
  for (size_t p = 1; p < count; ++p) {
    const int32_t way = path_[p].way;
    const int32_t value = path_[p].node / 2;
    if (way == kThrough) {
      most = std::min(most, bytes_[value] - through_[value]);
    } else if (way < 0) {
      most = std::min(most, way == kBack ? through_[value] : along_[kUndo - way]);
    }
  }
  for (size_t p = 1; p < count; ++p) {
    const int32_t way = path_[p].way;
    const int32_t value = path_[p].node / 2;
    seen_[path_[p].node] = 0;  // There may be more this way.
    if (way == kThrough) {
      through_[value] += most;
      used_values_.push_back(value);
    } else if (way == kBack) {
      through_[value] -= most;
    } else if (way < 0) {
      along_[kUndo - way] -= most;
    } else {
      along_[way] += most;
      used_reads_.push_back(way);
    }
  }
  work_ += static_cast<int64_t>(count);
  origins_.push_back(path_.back().node / 2);
  return most;
}

// What the sources reach with the flow is not cut off.
void Blocking::cut_off(int32_t end, std::vector<uint64_t>* set) {
  ++stamp_;
  open_.clear();
  const auto reach = [&](int32_t node) {
    if (seen_[node] != stamp_) {
      seen_[node] = stamp_;
      open_.push_back(node);
    }
  };
  for (int32_t value = 0; value < end; ++value) {
    if (is_source_[value] != 0) {
      reach(2 * value);
    }
  }
  while (!open_.empty()) {
    const int32_t node = open_.back();
    const int32_t value = node / 2;
    open_.pop_back();
    if (node % 2 == 0) {
      if (through_[value] < bytes_[value]) {
        reach(2 * value + 1);
      }
      for (int32_t k = reads_.in_at[value]; k < reads_.in_at[value + 1]; ++k) {
        if (along_[k] > 0) {
          reach(2 * reads_.in[k] + 1);
        }
      }
      work_ += 2;
      continue;
    }
    for (int32_t k = reads_.out_at[value]; k < reads_.out_at[value + 1]; ++k) {
      if (reads_.out[k] < end) {
        reach(2 * reads_.out[k]);
      }
    }
    work_ += reads_.out_at[value + 1] - reads_.out_at[value] + 1;
    if (through_[value] > 0) {
      reach(2 * value);
    }
  }
  for (int32_t value = 0; value < end; ++value) {
    if (is_source_[value] == 0 && seen_[2 * value] != stamp_) {
      (*set)[value / 64] |= uint64_t{1} << (value % 64);
    }
  }
  work_ += end / 8;
}

}  // namespace encore::plan
