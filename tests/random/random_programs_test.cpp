// Random training functions under random nestings of checkpoints, scopes, policies and checks, and within
// budgets, against the plain run.
//
//   ENCORE_PROGRAMS=100000 ENCORE_FIRST_SEED=1 test_random      so many programs in all, of all kinds
//   ENCORE_SEED=123 test_random                                 one program alone, printed; shrunk if it fails
//
// Hostile programs are also made of what careful code does not do.
#include <cstdlib>
#include <functional>
#include <map>

#include "random/program.h"

namespace encore::test {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// How many programs of each kind are run, of kAll.
constexpr uint64_t kGentleAlone = 2500;
constexpr uint64_t kHostileAlone = 800;
constexpr uint64_t kHostileInBudgets = 100;
constexpr uint64_t kGentleInBudgets = 400;
constexpr uint64_t kAll = kGentleAlone + kHostileAlone + kHostileInBudgets + kGentleInBudgets;

/// What happened to all programs, told at the end.
struct Totals : ::testing::Environment {
  void TearDown() override {
    if (run == 0) {
      return;
    }
    std::cout << "in all " << run << " programs, " << refused << " refused with an error:\n";
    for (const auto& [reason, count] : reasons) {
      std::cout << "  " << count << " times: " << reason << "\n";
    }
  }
  uint64_t run = 0;
  uint64_t refused = 0;
  std::map<std::string, uint64_t> reasons;
};
Totals& totals() {
  static auto* const totals = static_cast<Totals*>(::testing::AddGlobalTestEnvironment(new Totals));
  return *totals;
}
const bool g_tells_totals = (totals(), true);

enum class Kind { kGentle, kHostile };

/// What a refusal is about: its message without numbers and names.
std::string reason_of(const std::string& message) {
  for (const char* reason : {"after it was used", "after autograd saved it", "a backward function changed"}) {
    if (message.find(reason) != std::string::npos) {
      return reason;
    }
  }
  return message;
}

/// Checks programs until so many were run, and says how often what happened. `adapt` changes each before it is run. At
/// most so many percent may be refused.
void check_programs(uint64_t programs, Kind kind, uint64_t refused_percent,
                    const std::function<void(Program&)>& adapt) {
  const bool alone = std::getenv("ENCORE_SEED") != nullptr;
  const uint64_t first = from_environment(alone ? "ENCORE_SEED" : "ENCORE_FIRST_SEED", 1);
  const uint64_t wanted = alone ? 1 : (from_environment("ENCORE_PROGRAMS", kAll) * programs + kAll - 1) / kAll;
  uint64_t run = 0;
  uint64_t refused = 0;
  uint64_t unsteady = 0;  // two plain runs differ
  uint64_t failed = 0;
  std::map<std::string, uint64_t> reasons;
  live_tensor_bytes();  // counts from here on
  for (uint64_t seed = first; run < wanted && failed < 5; ++seed) {
    Program program = make_program(seed, kind == Kind::kHostile);
    adapt(program);
    const std::string found = check_program(program);
    if (found == "skip" && !alone) {
      continue;  // autograd itself refuses it: a saved tensor was overwritten
    }
    if (found.rfind("unsteady", 0) == 0) {
      ++unsteady;
      std::cout << "seed " << seed << " " << found << "\n";
      continue;
    }
    ++run;
    const bool is_refused = found.rfind("refused", 0) == 0;
    refused += is_refused ? 1 : 0;
    if (is_refused) {
      ++reasons[reason_of(found)];
    }
    if (alone) {
      std::cout << program.text() << (found.empty() ? "equal" : found) << "\n";
    }
    if (!found.empty() && !is_refused && found != "skip") {
      ++failed;
      const Program small = shrink(program);
      ADD_FAILURE() << "seed " << seed << ": " << found << "\nshrunk to\n"
                    << small.text() << check_program(small) << "\nrun alone with ENCORE_SEED=" << seed;
    }
  }
  std::cout << run << " programs, " << refused << " refused with an error, " << failed << " failed, " << unsteady
            << " unsteady\n";
  totals().run += run;
  totals().refused += refused;
  for (const auto& [reason, count] : reasons) {
    std::cout << "  " << count << " times: " << reason << "\n";
    totals().reasons[reason] += count;
  }
  // A refusal is right where a tensor from outside was overwritten after its use, which must stay the exception.
  EXPECT_LE(refused * 100, wanted * refused_percent + 99);
  EXPECT_LE(unsteady * 100, wanted + 99);
}

TEST(RandomPrograms, EqualThePlainRun) {
  check_programs(kGentleAlone, Kind::kGentle, 10, [](Program&) {});
  std::cout << recorded_op_names().size() << " different ATen ops\n";
  if (std::getenv("ENCORE_SEED") == nullptr && std::getenv("ENCORE_PROGRAMS") == nullptr) {
    EXPECT_GE(recorded_op_names().size(), 170U);
  }
}

/// Seeds of programs that were wrong once, for as long as the generator makes the same of them.
TEST(RandomPrograms, NeverFailAgain) {
  EXPECT_EQ(check_program(make_program(102413)), "");  // a checkpoint in a scope in a function called again
  Program shared = make_program(110115);               // arguments of such a function that share their bytes
  give_budget(shared);
  EXPECT_EQ(check_program(shared), "");
}

TEST(RandomPrograms, HostileOnesEqualThePlainRunOrAreRefused) {
  check_programs(kHostileAlone, Kind::kHostile, 10, [](Program&) {});
}

TEST(RandomPrograms, HostileOnesEqualThePlainRunWithinBudgets) {
  check_programs(kHostileInBudgets, Kind::kHostile, 10, give_budget);
}

TEST(RandomPrograms, EqualThePlainRunWithinBudgets) {
  check_programs(kGentleInBudgets, Kind::kGentle, 10, give_budget);
  const BudgetTally& tally = budget_tally();
  std::cout << tally.planned << " planned steps, " << tally.ops_replayed << " ops replayed, " << tally.packed
            << " values packed, " << tally.refused << " budgets refused\n";
  if (std::getenv("ENCORE_SEED") == nullptr && std::getenv("ENCORE_PROGRAMS") == nullptr) {
    EXPECT_GE(tally.planned, 200);
    EXPECT_GE(tally.ops_replayed, 400);
  }
}

}  // namespace
}  // namespace encore::test
