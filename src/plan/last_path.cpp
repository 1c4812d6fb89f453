// Sweeps from the step backwards over what may be on a last path, until nothing more of C can be left out.
#include "plan/last_path.h"

#include <algorithm>

namespace encore::plan {
namespace {

// So many sets a value, in graphs up to some thousand steps; above, memory for more would be hundreds of megabytes.
constexpr size_t kMostWays = 4;
constexpr int32_t kManyValues = 3000;
// Of what was found out, the last few are kept.
constexpr size_t kKept = 4;

bool has(const std::vector<uint64_t>& set, int32_t value) {
  return ((set[static_cast<size_t>(value / 64)] >> (value % 64)) & 1) != 0;
}

void put(int32_t value, std::vector<uint64_t>* set) {
  (*set)[static_cast<size_t>(value / 64)] |= uint64_t{1} << (value % 64);
}

void intersect(const std::vector<uint64_t>& with, std::vector<uint64_t>* set) {
  for (size_t k = 0; k < set->size(); ++k) {
    (*set)[k] &= with[k];
  }
}

template <class T>
void keep(std::vector<T>* all, T one) {
  if (all->size() >= kKept) {
    all->erase(all->begin());
  }
  all->push_back(std::move(one));
}

// What is read by the steps themselves: holding a value until a step isn't reading it where the step runs again.
Reads reads_of(const Compact& compact, const Graph& graph) {
  Reads reads;
  std::vector<std::vector<int32_t>> users(compact.n + 1);
  reads.in_at.push_back(0);
  for (int32_t i = 0; i <= compact.n; ++i) {
    std::vector<int32_t> inputs = i < compact.n ? graph.steps[i].inputs : graph.outputs;
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (const int32_t input : inputs) {
      users[input].push_back(i);
    }
    reads.in.insert(reads.in.end(), inputs.begin(), inputs.end());
    reads.in_at.push_back(static_cast<int32_t>(reads.in.size()));
  }
  reads.out_at.push_back(0);
  for (const auto& list : users) {
    reads.out.insert(reads.out.end(), list.begin(), list.end());
    reads.out_at.push_back(static_cast<int32_t>(reads.out.size()));
  }
  return reads;
}

std::vector<int64_t> smallest(const Compact& compact, const Graph& graph) {
  std::vector<int64_t> bytes = compact.bytes;
  for (int32_t i = 0; i < compact.n; ++i) {
    for (const Variant& variant : graph.steps[i].variants) {
      bytes[i] = std::min(bytes[i], variant.bytes);
    }
  }
  return bytes;
}

}  // namespace

LastPath::LastPath(const Compact& compact, const Graph& graph)
    : graph_(compact),
      reads_(reads_of(compact, graph)),
      bytes_(smallest(compact, graph)),
      is_ancestor_(compact.n + 1, 0),
      is_left_(compact.n + 1, 0),
      blocking_(reads_, bytes_, is_left_),
      background_(compact.n + 1, 0),
      most_ways_(compact.n <= kManyValues ? kMostWays : 1) {}

bool LastPath::is_within(const Set& a, const Set& b) {
  work_ += static_cast<int64_t>(words_ / 8 + 1);
  for (size_t k = 0; k < words_; ++k) {
    if ((a[k] & ~b[k]) != 0) {
      return false;
    }
  }
  return true;
}

// Of two ways, one that cuts off no more than the other takes no more either, whatever comes after.
void LastPath::add(Way way, std::vector<Way>* ways) {
  for (Way& other : *ways) {
    if (is_within(other.off, way.off)) {
      intersect(way.on, &other.on);
      return;
    }
  }
  size_t kept = 0;
  for (size_t k = 0; k < ways->size(); ++k) {
    if (is_within(way.off, (*ways)[k].off)) {
      intersect((*ways)[k].on, &way.on);
    } else {
      std::swap((*ways)[kept++], (*ways)[k]);
    }
  }
  ways->resize(kept);
  ways->push_back(std::move(way));
  if (ways->size() <= most_ways_) {
    return;
  }
  // What two ways have in common takes no more than either. The two that have most are joined.
  size_t first = 0;
  size_t second = 1;
  int64_t most = -1;
  for (size_t a = 0; a < ways->size(); ++a) {
    for (size_t b = a + 1; b < ways->size(); ++b) {
      int64_t common = 0;
      for (size_t k = 0; k < words_; ++k) {
        common += __builtin_popcountll((*ways)[a].off[k] & (*ways)[b].off[k]);
      }
      work_ += static_cast<int64_t>(words_ / 8 + 1);
      if (common > most) {
        most = common;
        first = a;
        second = b;
      }
    }
  }
  Way both = std::move((*ways)[first]);
  intersect((*ways)[second].on, &both.on);
  intersect((*ways)[second].off, &both.off);
  ways->erase(ways->begin() + static_cast<int64_t>(second));
  ways->erase(ways->begin() + static_cast<int64_t>(first));
  add(std::move(both), ways);
}

const std::vector<int32_t>& LastPath::items(const Set& set, int32_t value) {
  items_.clear();
  for (size_t k = 0; k < words_; ++k) {
    for (uint64_t rest = set[k]; rest != 0; rest &= rest - 1) {
      items_.push_back(static_cast<int32_t>(64 * k) + __builtin_ctzll(rest));
    }
  }
  if (value >= 0) {
    items_.push_back(value);
  }
  return items_;
}

// A flow stays one as long as what it comes from is in C, and what more of a path is free only adds to it.
bool LastPath::holds(const Stopped& stopped, const Set& with, size_t inputs_left) {
  return stopped.inputs_left == inputs_left && is_within(stopped.with, with) &&
         std::all_of(stopped.origins.begin(), stopped.origins.end(), [&](int32_t c) { return is_left_[c] != 0; });
}

// Whether it takes `bytes` to block the sinks, besides what is there.
bool LastPath::is_too_much(const Set& sinks, const std::vector<int32_t>& there, int64_t bytes,
                           std::vector<Stopped>* known) {
  if (std::any_of(known->begin(), known->end(), [&](const Stopped& it) { return holds(it, sinks, there.size()); })) {
    return true;
  }
  if (blocking_.least(items(sinks, -1), there, bytes) < bytes) {
    return false;
  }
  keep(known, Stopped{sinks, blocking_.origins(), there.size()});
  return true;
}

// Whether the value may close one of these ways within less than `bytes`. What it reads is there then; but what is cut
// off is cut off by values that are others if these are there, unless they are in C, where nothing is ever cut off. So
// either all of its inputs count, and only what is on the way itself has to be free, or those in C.
bool LastPath::can_be_first(int32_t value, const std::vector<Way>& ways, int64_t bytes) {
  int64_t in_all = graph_.bytes[value] + graph_.temp[value] + background_[value];
  int64_t in_c = in_all;
  std::vector<int32_t> there{value};
  std::vector<int32_t> there_in_c{value};
  for (int32_t k = reads_.in_at[value]; k < reads_.in_at[value + 1]; ++k) {
    const int32_t input = reads_.in[k];
    in_all += graph_.bytes[input];
    there.push_back(input);
    if (is_left_[input] != 0) {
      in_c += graph_.bytes[input];
      there_in_c.push_back(input);
    }
  }
  Value& here = values_[value];
  return in_all < bytes && std::any_of(ways.begin(), ways.end(), [&](const Way& way) {
           return !is_too_much(way.off, there_in_c, bytes - in_c, &here.not_first) &&
                  !is_too_much(way.on, there, bytes - in_all, &here.not_first_on);
         });
}

// The ways that may go on through the value within less than `bytes`.
void LastPath::pass(int32_t value, const std::vector<Way>& ways, int64_t bytes) {
  Value& here = values_[value];
  const int64_t enough = bytes - background_[0];
  const auto go_on = [&](const Way& way, const Set& off) {
    Way next{way.on, off};
    put(value, &next.on);
    add(std::move(next), &here.ways);
  };
  for (const Way& way : ways) {
    if (has(way.off, value)) {
      go_on(way, way.off);
      continue;
    }
    const auto same = std::find_if(here.passed.begin(), here.passed.end(),
                                   [&](const Passed& passed) { return passed.before == way.off; });
    if (same != here.passed.end()) {
      go_on(way, same->after);
      continue;
    }
    if (std::any_of(here.stopped.begin(), here.stopped.end(),
                    [&](const Stopped& it) { return holds(it, way.off, 0); })) {
      continue;
    }
    if (blocking_.least(items(way.off, value), {}, enough) >= enough) {
      keep(&here.stopped, Stopped{way.off, blocking_.origins(), 0});
      continue;
    }
    Set off = way.off;
    blocking_.cut_off(target_, &off);
    intersect(ancestors_, &off);
    put(value, &off);
    keep(&here.passed, Passed{way.off, off});
    go_on(way, off);
  }
}

void LastPath::begin(int32_t step) {
  target_ = step;
  words_ = static_cast<size_t>(step / 64 + 1);
  std::fill(is_ancestor_.begin(), is_ancestor_.end(), 0);
  std::fill(is_left_.begin(), is_left_.end(), 0);
  ancestors_.assign(words_, 0);
  is_ancestor_[step] = 1;
  int64_t background = graph_.background[step];
  for (int32_t i = step; i >= 0; --i) {
    background = std::min(background, graph_.background[i]);
    background_[i] = background;
    if (is_ancestor_[i] != 0) {
      for (int32_t k = reads_.in_at[i]; k < reads_.in_at[i + 1]; ++k) {
        is_ancestor_[reads_.in[k]] = 1;
      }
      put(i, &ancestors_);
      is_left_[i] = i < step ? 1 : 0;
    }
  }
  values_.assign(static_cast<size_t>(step) + 1, Value());
}

// False if the work is over.
bool LastPath::sweep(int64_t bytes, int64_t max_work, bool* left_out) {
  for (Value& value : values_) {
    value.ways.clear();
  }
  Set start(words_, 0);
  put(target_, &start);
  values_[target_].ways.push_back({start, start});
  std::vector<Way> ways;
  for (int32_t i = target_ - 1; i >= 0; --i) {
    if (is_ancestor_[i] == 0) {
      continue;
    }
    ways.clear();
    for (int32_t k = reads_.out_at[i]; k < reads_.out_at[i + 1]; ++k) {
      const int32_t user = reads_.out[k];
      if (user <= target_ && is_ancestor_[user] != 0 && is_left_[user] == 0) {
        for (const Way& way : values_[user].ways) {
          add(way, &ways);
        }
      }
    }
    ++work_;
    if (is_left_[i] != 0) {
      if (!can_be_first(i, ways, bytes)) {
        continue;
      }
      is_left_[i] = 0;
      *left_out = true;
    }
    pass(i, ways, bytes);
    if (work() > max_work) {
      return false;
    }
  }
  return true;
}

bool LastPath::needs(int32_t step, int64_t bytes, int64_t max_work) {
  const int64_t stop = work() + max_work;
  begin(step);
  for (bool left_out = true; left_out;) {
    left_out = false;
    if (!sweep(bytes, stop, &left_out)) {
      return false;
    }
  }
  return std::find(is_left_.begin(), is_left_.end(), 1) != is_left_.end();
}

}  // namespace encore::plan
