// Who is there: keys under <prefix>/, set by each rank's own thread.
//
//   news/<rank>   set by whoever tells of a failure; the rank's thread waits for it
//   here/<rank>   the answer: what the rank is in
//   first         the first announcement: "<rank> <text>"
//   lost          the ranks that did not answer, by whoever knew first: all name the same
//   asked/<rank>  the rank has its answer
//   next          the ranks of the next generation
//   bye/<rank>    the rank needs its connections no more
#include "dist/roll_call.h"
#include "dist/apart.h"

#include <numeric>
#include <sstream>

namespace encore::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::vector<uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// What the first to tell of a failure told.
std::string tell(c10d::Store& store, int rank, const std::string& announcement, int ranks) {
  std::string first = text_of(store.compareSet("first", {}, bytes_of(std::to_string(rank) + " " + announcement)));
  for (int r = 0; r < ranks; ++r) {
    store.set("news/" + std::to_string(r), bytes_of("failure"));
  }
  return first;
}

std::vector<int> all_of(int size) {
  std::vector<int> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = "ranks";
  for (const int rank : ranks) {
    text += " " + std::to_string(rank);
  }
  return text;
}

std::vector<int> ranks_in(const std::string& list) {
  std::vector<int> ranks;
  std::istringstream words(list.substr(std::min<size_t>(list.size(), 5)));
  for (int rank = 0; words >> rank;) {
    ranks.push_back(rank);
  }
  return ranks;
}

/// Asks for the keys until all are there, `enough` is, or the time is up; says which are not.
std::vector<int> missing(c10d::Store& store, const std::string& prefix, std::vector<int> ranks, Clock::time_point until,
                         const std::string& enough = "") {
  while (true) {
    std::vector<int> left;
    for (const int rank : ranks) {
      if (!store.check({prefix + std::to_string(rank)})) {
        left.push_back(rank);
      }
    }
    if (left.empty() || Clock::now() >= until || (!enough.empty() && store.check({enough}))) {
      return left;
    }
    ranks = std::move(left);
    std::this_thread::sleep_for(milliseconds(20));
  }
}

}  // namespace

compat::StorePtr StorePlace::connect(milliseconds patience) const {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, compat::connect_store(host, port, false, patience));
}

RollCall::RollCall(StorePlace place, int rank, int size)
    : place_(std::move(place)), rank_(rank), size_(size), store_(place_.connect(place_.timeout)) {
  std::thread([state = state_, place = place_, rank] { listen(state, place, rank); }).detach();
}

void RollCall::listen(const std::shared_ptr<State>& state, const StorePlace& place, int rank) {
  const milliseconds patience = std::chrono::minutes(10);
  const std::string own = std::to_string(rank);
  while (!state->leaving) {
    const auto began = Clock::now();
    try {
      const auto store = place.connect(place.timeout);
      store->wait({"news/" + own}, patience);
      if (!state->leaving) {
        std::string now_in;
        {
          const std::lock_guard<std::mutex> lock(state->mutex);
          now_in = state->now_in;
        }
        store->set("here/" + own, bytes_of(now_in));
        state->news = true;
      }
      break;
    } catch (const std::exception&) {
      if (Clock::now() - began < patience) {
        break;  // the store is gone; whoever waits in a collective learns it from the collective
      }
      // A wait that timed out leaves the answer on its way: the connection is of no more use.
    }
  }
  const std::lock_guard<std::mutex> lock(state->mutex);
  state->ended = true;
  state->ended_changed.notify_all();
}

void RollCall::now_in(const std::string& collective) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->now_in = collective;
}

void RollCall::announce(const std::string& announcement, int ranks, milliseconds patience) {
  called_ = true;
  within(patience, [store = store_, host = place_.host_rank, rank = rank_, announcement, ranks, patience] {
    const auto until = Clock::now() + patience * 9 / 10;
    tell(*store, rank, announcement, ranks);
    store->set("asked/" + std::to_string(rank), bytes_of("asked"));
    if (rank == host) {
      missing(*store, "asked/", all_of(ranks), until);
    }
  });
}

RollResult RollCall::call(const std::string& announcement, milliseconds patience) {
  called_ = true;
  const auto result = std::make_shared<RollResult>();
  std::string now_in;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    now_in = state_->now_in;
  }
  const bool answered = within(patience, [store = store_, host = place_.host_rank, size = size_, rank = rank_, result,
                                          announcement, now_in, patience] {
    const auto began = Clock::now();
    const std::string first = tell(*store, rank, announcement, size);
    store->set("here/" + std::to_string(rank), bytes_of(now_in));
    const auto absent = missing(*store, "here/", all_of(size), began + patience * 6 / 10, "lost");
    RollResult found;
    found.announced_by = std::stoi(first);
    found.announcement = first.substr(first.find(' ') + 1);
    found.lost = ranks_in(text_of(store->compareSet("lost", {}, bytes_of(list_of(absent)))));
    std::vector<int> there;
    for (const int r : all_of(size)) {
      if (std::find(found.lost.begin(), found.lost.end(), r) == found.lost.end()) {
        there.push_back(r);
        if (store->check({"here/" + std::to_string(r)}) && store->get("here/" + std::to_string(r)).empty()) {
          found.elsewhere.push_back(r);
        }
      }
    }
    store->set("asked/" + std::to_string(rank), bytes_of("asked"));
    *result = std::move(found);
    if (rank == host) {
      // With this process goes the store, and others would take its host for the one that is lost.
      missing(*store, "asked/", there, began + patience * 9 / 10);
    }
  });
  RollResult found;
  if (answered) {
    found = *result;
  } else {
    found.store_answers = false;
    if (place_.host_rank >= 0) {
      found.lost.push_back(place_.host_rank);
    }
  }
  lost_ = found.lost;
  return found;
}

std::vector<int> RollCall::agree_on_survivors(const std::vector<int>& mine, milliseconds patience) {
  const auto agreed = std::make_shared<std::string>();
  const bool answered = within(patience, [store = store_, text = list_of(mine), agreed] {
    *agreed = text_of(store->compareSet("next", {}, bytes_of(text)));
  });
  return answered ? ranks_in(*agreed) : std::vector<int>();
}

void RollCall::say_goodbye() noexcept {
  try {
    const milliseconds patience = std::min<milliseconds>(place_.timeout / 4, std::chrono::seconds(5));
    const auto until = Clock::now() + patience;
    within(patience, [store = store_, rank = rank_, size = size_, failed = called_ || state_->news, until] {
      store->set("bye/" + std::to_string(rank), bytes_of("bye"));
      if (!failed) {
        missing(*store, "bye/", all_of(size), until);
      }
      store->set("news/" + std::to_string(rank), bytes_of("leaving"));
      store->check({"bye/0"});  // an answer: what was sent before has been read
    });
    std::unique_lock<std::mutex> lock(state_->mutex);
    state_->ended_changed.wait_for(lock, std::chrono::seconds(1), [this] { return state_->ended; });
  } catch (...) {
    // Nobody is left to be told.
  }
}

RollCall::~RollCall() {
  state_->leaving = true;
  say_goodbye();
}

}  // namespace encore::dist
