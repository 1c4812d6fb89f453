// Every program trains within a budget with equal bits, or is refused with a least that is at most its plain peak and
// works.
#include "programs/programs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace encore::test {
namespace {

/// What the two workers of a loader may hold or not: four batches ahead, two of them as single images besides.
constexpr int64_t kBatchesOfCnn = 6 * 64 * (28 * 28 * 4 + 8);

/// That a program takes at most before a budget is named in which it trains; counts are printed.
constexpr int kMostRefusals = 10;

/// A part of the plain peak by which a second step may be taken for larger than it is: what the first one made for good
/// is told from the rest by when it was made.
constexpr int64_t kSecondStepPart = 10000;

const std::vector<Program>& all_programs() {
  static const std::vector<Program> programs = {
      {"Cnn", train_cnn, kBatchesOfCnn},
      {"Gan", train_gan},
      {"GanByTurns", train_gan_by_turns},
      {"Vae", train_vae},
      {"LanguageModel", train_language_model},
      {"BidirectionalLstm", train_bidirectional_lstm},
      {"AlexNet", train_alexnet},
      {"ResNet", train_resnet},
      {"Captioning", train_captioning},
      {"StyleTransfer", transfer_style},
      {"StyleTransferByLbfgs", transfer_style_by_lbfgs},
      {"MicroBatches", train_micro_batches},
      {"TrainsAfterEvaluation", train_after_evaluation},
  };
  return programs;
}

Trained run(const Program& program, Way way) {
  torch::manual_seed(3);
  Run run(way);
  try {
    program.train(run);
    run.keep("the generator", at::detail::getDefaultCPUGenerator().get_state());
  } catch (const BudgetError& error) {
    run.trained().refused = error.figures();
    run.trained().limit_bytes = std::max(run.trained().limit_bytes, error.figures().limit_bytes);
    run.trained().refusal = error.what();
  }
  return run.trained();
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b, size_t count) {
  return a.size() >= count && b.size() >= count &&
         (count == 0 || std::memcmp(a.data(), b.data(), count * sizeof(double)) == 0);
}

void expect_same(const Trained& plain, const Trained& trained, const Way& way) {
  ASSERT_EQ(trained.losses.size(), plain.losses.size()) << way;
  EXPECT_TRUE(same_bits(trained.losses, plain.losses, plain.losses.size())) << way << ": losses";
  ASSERT_EQ(trained.tensors.size(), plain.tensors.size()) << way;
  for (const auto& [name, bytes] : plain.tensors) {
    ASSERT_EQ(trained.tensors.count(name), 1U) << way << ": " << name;
    EXPECT_TRUE(trained.tensors.at(name) == bytes) << way << ": " << name;
  }
}

/// The plain run, done twice: in the first one of a process LibTorch makes what it keeps for ever.
const Trained& plain_run_of(const Program& program) {
  static std::map<std::string, Trained> runs;
  auto found = runs.find(program.name);
  if (found == runs.end()) {
    const Trained first = run(program, Way{});
    const Trained second = run(program, Way{});
    expect_same(first, second, Way{});
    found = runs.emplace(program.name, second).first;
  }
  return found->second;
}

class EveryProgram : public ::testing::TestWithParam<Program> {
 protected:
  const Trained& plain() const { return plain_run_of(GetParam()); }

  int64_t most_bytes() const {
    return plain().peak_bytes + plain().peak_bytes / kSecondStepPart + GetParam().varying_bytes;
  }

  /// Trains with equal bits, or is refused with a larger budget that is no more than plain training takes. Who states
  /// that one instead gets there after a few refusals at most: a first step that is refused half way can't know the
  /// rest of it.
  void trains_or_names_what_it_needs(Way way, int refusals_left = kMostRefusals) {
    const Trained trained = run(GetParam(), way);
    if (trained.refused) {
      std::cout << "  refusal " << ++refusals_ << ", in step " << trained.steps - 1 << ": of a plain peak of "
                << plain().peak_bytes << " bytes, " << trained.refused->limit_bytes << " are stated and "
                << trained.refused->least_bytes << " named: " << trained.refusal << "\n";
    }
    if (way.part > 0) {
      EXPECT_LE(trained.limit_bytes, most_bytes()) << "a part of the plain peak";
    }
    if (!trained.refused) {
      expect_same(plain(), trained, way);
      return;
    }
    ASSERT_GT(refusals_left, 0) << trained.refusal;
    SCOPED_TRACE("plain peak " + std::to_string(plain().peak_bytes) + ", refused in step " +
                 std::to_string(trained.steps - 1) + ": " + trained.refusal);
    EXPECT_TRUE(same_bits(trained.losses, plain().losses, trained.losses.size())) << "what ran before it was refused";
    const int64_t least_bytes = trained.refused->least_bytes;
    EXPECT_GT(least_bytes, trained.refused->limit_bytes);
    EXPECT_LE(least_bytes, most_bytes());
    ASSERT_GT(least_bytes, 0) << "no budget is named that works";
    trains_or_names_what_it_needs(Way{0, least_bytes + GetParam().varying_bytes}, refusals_left - 1);
  }

 private:
  int refusals_ = 0;
};

TEST_P(EveryProgram, TrainsAlikeTwice) {
  const Trained again = run(GetParam(), Way{});
  expect_same(plain(), again, Way{});
  EXPECT_GT(again.losses.size(), 0U);
  EXPECT_TRUE(std::all_of(again.losses.begin(), again.losses.end(), [](double loss) { return std::isfinite(loss); }));
  EXPECT_NEAR(static_cast<double>(again.peak_bytes), static_cast<double>(plain().peak_bytes),
              static_cast<double>(GetParam().varying_bytes));
}

TEST_P(EveryProgram, TrainsWithinAWholeFraction) {
  const Way way{1, 0};
  const Trained trained = run(GetParam(), way);
  ASSERT_FALSE(trained.refused) << "plain peak " << plain().peak_bytes << ", refused in step " << trained.steps - 1
                                << ": " << trained.refusal;
  expect_same(plain(), trained, way);
  EXPECT_LE(trained.limit_bytes, most_bytes());
}

TEST_P(EveryProgram, TrainsWithinAFractionOrNamesWhatItNeeds) {
  trains_or_names_what_it_needs(Way{0.6, 0});
}

TEST_P(EveryProgram, TrainsWithinMostOfItsBytesOrNamesWhatItNeeds) {
  trains_or_names_what_it_needs(Way{0, plain().peak_bytes * 7 / 10});
}

TEST_P(EveryProgram, TrainsWithinFewBytesOrNamesWhatItNeeds) {
  trains_or_names_what_it_needs(Way{0, plain().peak_bytes * 4 / 10});
}

/// Says something only where it is the first test of its process: it has a ctest entry of its own.
TEST(FirstUse, CountsWhatWasMadeBefore) {
  const Program program{"Vae", train_vae};
  const Trained budgeted = run(program, Way{1, 0});
  ASSERT_FALSE(budgeted.refused) << budgeted.refusal;
  const Trained plain = run(program, Way{});
  const Trained again = run(program, Way{1, 0});
  expect_same(plain, budgeted, Way{1, 0});
  EXPECT_EQ(budgeted.limit_bytes, again.limit_bytes);
  EXPECT_EQ(budgeted.peak_bytes, again.peak_bytes);
}

INSTANTIATE_TEST_SUITE_P(Programs, EveryProgram, ::testing::ValuesIn(all_programs()),
                         [](const ::testing::TestParamInfo<Program>& test) { return test.param.name; });

}  // namespace
}  // namespace encore::test
