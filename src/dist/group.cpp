// Joining, and going on without a rank that is lost.
#include "dist/group.h"
#include "dist/apart.h"

#include <cstdlib>

#include <encore/version.h>

namespace encore {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t number_from(const char* name, int64_t least, int64_t most) {
  const std::string text = environment(name);
  char* end = nullptr;
  const int64_t number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || number < least || number > most) {
    throw InvalidArgument("dist: " + std::string(name) + " is '" + text + "', and must be a number from " +
                          std::to_string(least) + " to " + std::to_string(most) + "; the launcher sets it");
  }
  return number;
}

void check(const GroupOptions& options) {
  if (options.timeout < std::chrono::milliseconds(100)) {
    throw InvalidArgument("dist: a time-out of " + std::to_string(options.timeout.count()) +
                          " ms; it must be 100 ms at least");
  }
}

bool is_this_machine(const std::string& host) {
  return host.empty() || host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

/// Without c10's list of callers.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

/// Runs what makes connections; c10d's exceptions become ours.
template <class F>
auto joining(const std::string& what, F f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw RankError("dist: " + what + ": " + first_line(error), -1, what);
  }
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

std::string versions() {
  return "Encore " + std::to_string(ENCORE_VERSION_MAJOR) + "." + std::to_string(ENCORE_VERSION_MINOR) + "." +
         std::to_string(ENCORE_VERSION_PATCH) + ", LibTorch " TORCH_VERSION;
}

/// What the first rank to come was told and has, or this one if it is the first.
struct World {
  std::string size;
  std::string versions;
};

World first_world(const dist::StorePlace& place, int size) {
  auto found = dist::apart([place, size] {
    const auto store = place.connect(place.timeout);
    const auto first = [&](const std::string& key, const std::string& mine) {
      using Bytes = std::vector<uint8_t>;  // LibTorch 2 has a compareSet of strings, too
      const Bytes said = store->compareSet(key, Bytes(), Bytes(mine.begin(), mine.end()));
      return std::string(said.begin(), said.end());
    };
    const std::string others_size = first("size", std::to_string(size));
    return World{others_size, first("versions", versions())};
  });
  std::string why = "not within the time-out";
  if (found.wait_for(place.timeout) == std::future_status::ready) {
    try {
      return found.get();
    } catch (const std::exception& error) {
      why = first_line(error);
    }
  }
  throw RankError("dist: joining: no store answers at " + place.host + ":" + std::to_string(place.port) + ", which " +
                      (place.host_rank < 0 ? "the launcher" : "rank " + std::to_string(place.host_rank)) + " hosts (" +
                      why + ")",
                  place.host_rank, "joining");
}

/// Before Gloo, whose connections would wait for ranks that never come, or break.
void require_same_world(dist::RollCall& roll, const World& first, int rank, int size,
                        std::chrono::milliseconds patience) {
  std::string difference;
  if (first.size != std::to_string(size)) {
    difference = "was told of " + std::to_string(size) + " ranks by WORLD_SIZE, another of " + first.size;
  } else if (first.versions != versions()) {
    difference = "has " + versions() + ", another " + first.versions;
  }
  if (!difference.empty()) {
    difference = "rank " + std::to_string(rank) + " " + difference;
    roll.announce("joining: " + difference, std::max(size, std::stoi(first.size)), patience);
    throw InvalidArgument("dist: " + difference);
  }
}

}  // namespace

RankError::RankError(const std::string& what, int rank, std::string collective)
    : Error(what), rank_(rank), collective_(std::move(collective)) {}
RankError::~RankError() = default;
RankBudgetError::RankBudgetError(const std::string& what, Figures figures, int rank)
    : BudgetError(what, std::move(figures)), rank_(rank) {}
RankBudgetError::~RankBudgetError() = default;

compat::GroupPtr RankGroup::Impl::connect(const std::string& name) {
  const std::string what = "connecting " + name;
  const auto began = std::chrono::steady_clock::now();
  roll->now_in(what);
  // Apart: c10d waits for ranks that never come until its time is up.
  auto group = dist::apart([name, place = roll->place(), own_rank = rank, ranks = size, given = options, bind = host] {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, place.connect(given.timeout));
    return compat::make_gloo(store, own_rank, ranks, given.timeout, given.interface, bind);
  });
  const auto until = began + options.timeout - patience();
  while (group.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    if (roll->news()) {
      fail(what, "another rank failed");
    }
    if (std::chrono::steady_clock::now() >= until) {
      fail(what, "not everybody came within the time-out");
    }
  }
  try {
    compat::GroupPtr connected = group.get();
    roll->now_in("");
    return connected;
  } catch (const std::exception& error) {
    fail(what, first_line(error));
  }
}

void RankGroup::Impl::fail(const std::string& collective, const std::string& why) {
  lost = true;
  const std::string what = "dist: rank " + std::to_string(rank) + ", " + collective + ": ";
  if (!roll) {
    throw RankError(what + why, -1, collective);
  }
  const dist::RollResult found = roll->call(collective + ": " + why, patience());
  if (!found.store_answers) {
    throw RankError(what + "the store does not answer" +
                        (found.lost.empty() ? std::string() : "; rank " + list_of(found.lost) + ", its host, is lost") +
                        " (" + why + ")",
                    found.lost.empty() ? -1 : found.lost[0], collective);
  }
  if (!found.lost.empty()) {
    throw RankError(what + "rank " + list_of(found.lost) + " is lost: it does not answer (" + why + ")", found.lost[0],
                    collective);
  }
  for (const int other : found.elsewhere) {
    if (other != rank) {
      throw RankError(what + "rank " + std::to_string(other) + " is there but in no collective (" + why + ")", other,
                      collective);
    }
  }
  throw RankError(what + "rank " + std::to_string(found.announced_by) + " failed in " + found.announcement,
                  found.announced_by, collective);
}

size_t RankGroup::Impl::take_group() {
  if (roll == nullptr) {
    return 0;
  }
  if (!free_groups.empty()) {
    const size_t place = free_groups.back();
    free_groups.pop_back();
    return place;
  }
  const std::string name = "group" + std::to_string(groups.size());
  groups.push_back(joining("connecting " + name, [&] { return connect(name); }));
  return groups.size() - 1;
}

RankGroup RankGroup::from_environment(const GroupOptions& options) {
  check(options);
  const bool alone = environment("RANK").empty() && environment("WORLD_SIZE").empty();
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  if (impl->options.interface.empty()) {
    impl->options.interface = environment("GLOO_SOCKET_IFNAME");
  }
  dist::StorePlace place;
  place.timeout = options.timeout;
  if (!alone) {
    impl->size = static_cast<int>(number_from("WORLD_SIZE", 1, 1 << 20));
    impl->rank = static_cast<int>(number_from("RANK", 0, impl->size - 1));
  }
  place.host = environment("MASTER_ADDR");
  if (alone || (impl->size == 1 && place.host.empty())) {
    place.host = "127.0.0.1";
  } else if (place.host.empty()) {
    throw InvalidArgument("dist: MASTER_ADDR is not set; it is the machine of rank 0, and the launcher sets it");
  } else {
    place.port = static_cast<uint16_t>(number_from("MASTER_PORT", 1, 65535));
  }
  if (is_this_machine(place.host)) {
    impl->host = "127.0.0.1";
  }
  const bool launcher_hosts = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  // A launcher that restarts the ranks keeps its store, with the keys of the ranks before.
  place.prefix = "encore/" + environment("TORCHELASTIC_RESTART_COUNT") + "/0";
  place.host_rank = launcher_hosts ? -1 : 0;
  joining("joining as rank " + std::to_string(impl->rank) + " of " + std::to_string(impl->size) + " at " + place.host +
              ":" + std::to_string(place.port),
          [&] {
            if (!launcher_hosts && impl->rank == 0) {
              impl->server = compat::connect_store(place.host, place.port, true, options.timeout);
              place.port = static_cast<c10d::TCPStore&>(*impl->server).getPort();
            }
            const World first = first_world(place, impl->size);
            impl->roll = std::make_unique<dist::RollCall>(place, impl->rank, impl->size);
            require_same_world(*impl->roll, first, impl->rank, impl->size, impl->patience());
            impl->groups.push_back(impl->connect("group0"));
          });
  return RankGroup(std::move(impl));
}

RankGroup::RankGroup(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

RankGroup::RankGroup(c10::intrusive_ptr<c10d::ProcessGroup> group, const GroupOptions& options)
    : impl_(std::make_shared<Impl>()) {
  check(options);
  if (!group) {
    throw InvalidArgument("dist: the process group is null");
  }
  impl_->options = options;
  impl_->rank = group->getRank();
  impl_->size = group->getSize();
  impl_->groups.push_back(std::move(group));
}

int RankGroup::rank() const {
  return impl_->rank;
}

int RankGroup::size() const {
  return impl_->size;
}

bool RankGroup::is_lost() const {
  return impl_->lost;
}

std::chrono::milliseconds RankGroup::timeout() const {
  return impl_->options.timeout;
}

c10::intrusive_ptr<c10d::ProcessGroup> RankGroup::process_group() const {
  return impl_->groups[0];
}

RankGroup RankGroup::without_lost() const {
  const auto& roll = impl_->roll;
  if (!roll || !roll->called()) {
    throw ScopeError(roll ? "dist: without_lost() in a group in which nothing failed"
                          : "dist: without_lost() of a process group that the program made itself: make another one");
  }
  std::vector<int> mine;
  for (int rank = 0; rank < impl_->size; ++rank) {
    if (std::find(roll->lost().begin(), roll->lost().end(), rank) == roll->lost().end()) {
      mine.push_back(rank);
    }
  }
  const std::string what = "going on without rank " + (roll->lost().empty() ? "" : std::to_string(roll->lost()[0]));
  const std::vector<int> ranks = roll->agree_on_survivors(mine, impl_->options.timeout);
  const auto self = std::find(ranks.begin(), ranks.end(), impl_->rank);
  if (self == ranks.end()) {
    throw RankError("dist: " + what + ": " +
                        (ranks.empty() ? "the store does not answer; start again by the launcher"
                                       : "the others took this rank for lost"),
                    ranks.empty() ? roll->place().host_rank : impl_->rank, what);
  }
  auto next = std::make_shared<Impl>();
  next->server = impl_->server;
  next->options = impl_->options;
  next->host = impl_->host;
  next->rank = static_cast<int>(self - ranks.begin());
  next->size = static_cast<int>(ranks.size());
  dist::StorePlace place = roll->place();
  place.prefix += "+";
  const auto host = std::find(ranks.begin(), ranks.end(), place.host_rank);
  place.host_rank = host == ranks.end() ? -1 : static_cast<int>(host - ranks.begin());
  joining(what, [&] {
    next->roll = std::make_unique<dist::RollCall>(place, next->rank, next->size);
    next->groups.push_back(next->connect("group0"));
  });
  return RankGroup(std::move(next));
}

}  // namespace encore
