// What comes back is what was there, or an error that names the op and says what was recorded and what came back.
#include "support/custom_ops.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Replay names the op that gave something else; a rerun, the op that saved it.
std::string named(Recompute recompute, const std::string& op) {
  return recompute == Recompute::kReplay ? "encore_test::" + op : "aten::mul.Tensor";
}

class Honesty : public ::testing::TestWithParam<Recompute> {
 protected:
  void SetUp() override { custom_ops::reset(); }

  CheckpointOptions options(DeterminismCheck check) const {
    CheckpointOptions options;
    options.name = "block";
    options.recompute = GetParam();
    options.determinism_check = check;
    return options;
  }

  /// What backward of x * op(x) says; empty if nothing.
  std::string complaint(const char* op, DeterminismCheck check) {
    custom_ops::reset();
    const at::Tensor x = leaf({2, 3});
    try {
      const at::Tensor y = checkpoint(
          options(check), [op](const at::Tensor& in) { return in.exp() * custom_ops::call(op, in.detach()).sum(0); },
          x);
      y.sum().backward();
    } catch (const DeterminismError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_P(Honesty, MetadataFindsAnotherShape) {
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) { return in.exp().sum(0) * custom_ops::call("grows", in.detach()); };
  const at::Tensor y = checkpoint(options(DeterminismCheck::kMetadata), f, x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_TRUE(has(message, named(GetParam(), "grows"))) << message;
  EXPECT_TRUE(has(message, "Float[2, 3]") && has(message, "Float[3, 3]")) << message;
  EXPECT_TRUE(has(message, "block")) << message;
}

TEST_P(Honesty, MetadataFindsAnotherType) {
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) { return in.exp() * custom_ops::call("retypes", in.detach()); };
  const at::Tensor y = checkpoint(options(DeterminismCheck::kMetadata), f, x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_TRUE(has(message, "Float[2, 3]") && has(message, "Int[2, 3]")) << message;
  EXPECT_TRUE(has(message, named(GetParam(), "retypes"))) << message;
}

TEST_P(Honesty, MetadataFindsAnotherNumberOfTensors) {
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) {
    at::Tensor y = in.exp();
    for (const at::Tensor& piece : custom_ops::call_splits(in.detach())) {
      y = y * piece;
    }
    return y.sum();
  };
  CheckpointOptions whole = options(DeterminismCheck::kMetadata);
  whole.early_stop = false;
  const at::Tensor y = checkpoint(whole, f, x);
  const std::string message = message_of<DeterminismError>([&] { y.backward(); });
  EXPECT_TRUE(has(message, "block")) << message;
}

TEST_P(Honesty, ValuesFindsASingleChangedBit) {
  EXPECT_EQ(complaint("flips", DeterminismCheck::kMetadata), "");
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) { return in.exp() * custom_ops::call("flips", in.detach()); };
  custom_ops::reset();
  const at::Tensor y = checkpoint(options(DeterminismCheck::kValues), f, x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_TRUE(has(message, named(GetParam(), "flips"))) << message;
  EXPECT_TRUE(has(message, "hash") && has(message, "block")) << message;
}

TEST_P(Honesty, ValuesAcceptsWhatIsTheSame) {
  EXPECT_EQ(complaint("counts", DeterminismCheck::kValues), "");
  EXPECT_EQ(complaint("draws", DeterminismCheck::kValues), "");
}

TEST_P(Honesty, NoneStillRefusesWhatMemorySafetyForbids) {
  if (GetParam() == Recompute::kRerun) {
    return;  // nothing is laid over recomputed bytes
  }
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) { return in.exp().sum(0) * custom_ops::call("grows", in.detach()); };
  const at::Tensor y = checkpoint(options(DeterminismCheck::kNone), f, x);
  EXPECT_THROW(y.sum().backward(), DeterminismError);
}

TEST_P(Honesty, AFunctionThatTakesAnotherPath) {
  if (GetParam() == Recompute::kReplay) {
    return;  // the function is not called again
  }
  const at::Tensor x = leaf({2, 3});
  for (const int fewer : {0, 1}) {
    auto calls = std::make_shared<int>(0);
    const auto f = [calls, fewer](const at::Tensor& in) {
      at::Tensor y = in.exp();
      if ((*calls)++ == fewer) {
        y = y.sin().exp();
      }
      return y.sum();
    };
    const at::Tensor y = checkpoint(options(DeterminismCheck::kMetadata), f, x);
    if (fewer == 0) {
      EXPECT_TRUE(has(message_of<DeterminismError>([&] { y.backward(); }), "block"));
    } else {
      y.backward();  // stopped as soon as all was there
    }
  }
}

TEST_P(Honesty, ValuesSeesASingleChangedBitOfAParameter) {
  const at::Tensor x = leaf({512});
  const at::Tensor weight = torch::randn({512});
  const auto f = [weight](const at::Tensor& in) { return (in + weight).exp().sin(); };
  const at::Tensor y = checkpoint(options(DeterminismCheck::kValues), f, x);
  weight.data_ptr<float>()[333] += 1;
  EXPECT_THROW(y.sum().backward(), ReplayError);
}

INSTANTIATE_TEST_SUITE_P(Modes, Honesty, ::testing::Values(Recompute::kReplay, Recompute::kRerun),
                         [](const auto& test) { return test.param == Recompute::kReplay ? "Replay" : "Rerun"; });

TEST(Counts, OnlyOpsWhoseResultsAreNeededAreReplayed) {
  const at::Tensor x = leaf({8, 8});
  Scope scope;
  {
    const at::Tensor y = checkpoint(
        [](const at::Tensor& in) {
          const at::Tensor needed = in.sin();        // its result is saved by exp's and mul's backward
          const at::Tensor unused = in.cos().tan();  // a dead branch
          return (needed.exp() * needed).sum();      // the sum saves nothing
        },
        x);
    y.backward();
  }
  const ScopeStats stats = scope.stats();
  EXPECT_EQ(stats.ops_replayed, 2) << scope.dump();  // sin and exp
  EXPECT_EQ(stats.replays, 1);
  EXPECT_EQ(stats.values_kept, 0);
  // sin, exp, and cos and tan of the dead branch, whose graph is gone by backward
  EXPECT_EQ(stats.bytes_dropped, stats.values_dropped * 8 * 8 * 4);
}

TEST(Counts, EarlyStopEndsTheSecondCallWhenAllIsThere) {
  const at::Tensor x = leaf({8, 8});
  for (const bool early_stop : {true, false}) {
    CheckpointOptions options;
    options.recompute = Recompute::kRerun;
    options.early_stop = early_stop;
    auto ends = std::make_shared<int>(0);
    checkpoint(
        options,
        [ends](const at::Tensor& in) {
          const at::Tensor y = in.exp().sin();  // the last to save is sin, its argument
          const at::Tensor z = y.sum();
          ++*ends;
          return z;
        },
        x)
        .backward();
    EXPECT_EQ(*ends, early_stop ? 1 : 2);
  }
}

}  // namespace
}  // namespace encore::test
