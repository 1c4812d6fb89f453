// What comes back is what was there, or an error that names the op and says what was recorded and what came back.
#include "support/custom_ops.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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
  EXPECT_TRUE(has(message, "encore_test::grows")) << message;
  EXPECT_TRUE(has(message, "Float[2, 3]") && has(message, "Float[3, 3]")) << message;
  EXPECT_TRUE(has(message, "block")) << message;
}

TEST_P(Honesty, MetadataFindsAnotherType) {
  const at::Tensor x = leaf({2, 3});
  const auto f = [](const at::Tensor& in) { return in.exp() * custom_ops::call("retypes", in.detach()); };
  const at::Tensor y = checkpoint(options(DeterminismCheck::kMetadata), f, x);
  const std::string message = message_of<DeterminismError>([&] { y.sum().backward(); });
  EXPECT_TRUE(has(message, "Float[2, 3]") && has(message, "Int[2, 3]")) << message;
  EXPECT_TRUE(has(message, "encore_test::retypes")) << message;
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
  EXPECT_TRUE(has(message, "encore_test::flips")) << message;
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

/// Its backward changes, in place, the tensor that it saved.
struct Spoils : torch::autograd::Function<Spoils> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, bool spoils) {
    context->save_for_backward({x});
    context->saved_data["spoils"] = spoils;
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    at::Tensor gradient = gradients[0] * 2 * x;
    if (context->saved_data["spoils"].toBool()) {
      const at::NoGradGuard no_grad;
      x.mul_(3);
    }
    return {gradient, at::Tensor()};
  }
};

TEST_P(Honesty, AChangeOfWhatAFactoryMadeIsSeen) {
  const at::Tensor x = leaf({300, 300});
  const auto gradient = [&](bool checkpointed) {
    torch::manual_seed(1);
    auto noise = std::make_shared<at::Tensor>();
    const auto f = [noise](const at::Tensor& in) {
      *noise = torch::rand({300, 300});
      return (in + *noise).sin();
    };
    const at::Tensor y = checkpointed ? checkpoint(options(DeterminismCheck::kMetadata), f, x) : f(x);
    (*noise)[151].zero_();
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  EXPECT_TRUE(same_bits(gradient(false), gradient(true)));
}

TEST_P(Honesty, ABackwardThatChangesWhatItSavedSpoilsNoOtherGradient) {
  const at::Tensor x = leaf({16});
  for (const bool output_lives : {false, true}) {
    const auto gradient = [&, output_lives = output_lives](bool spoils) {
      at::Tensor shared;
      const at::Tensor y = checkpoint(
          options(DeterminismCheck::kNone),
          [&shared, spoils, output_lives](const at::Tensor& in) {
            const at::Tensor value = in.tanh();
            if (output_lives) {
              shared = value.detach();
            }
            const at::Tensor other = value.sin();  // saves it too, and is differentiated last
            return other + Spoils::apply(value, spoils);
          },
          x);
      return torch::autograd::grad({y.sum()}, {x})[0];
    };
    const at::Tensor expected = gradient(false);
    try {
      EXPECT_TRUE(same_bits(gradient(true), expected)) << (output_lives ? "value alive" : "value gone");
    } catch (const std::exception&) {
      // What the plain run does.
    }
  }
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
