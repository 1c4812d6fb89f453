// ActivationCheckpointer: what it keeps, what it recomputes, and its byte counts.
#include <ATen/CPUGeneratorImpl.h>

#include "support/oracle.h"

namespace encore::test {
namespace {

std::vector<int64_t> first(int64_t count) {
  std::vector<int64_t> layers;
  for (int64_t i = 0; i < count; ++i) {
    layers.push_back(i);
  }
  return layers;
}

at::Tensor simple(const at::Tensor& x, int64_t layer) {
  return x * 1.1 + static_cast<double>(layer) * 0.01;
}

at::Tensor chain(at::Tensor x, int64_t last) {
  for (int64_t i = 0; i <= last; ++i) {
    x = simple(x, i);
  }
  return x;
}

LayerCheckpointConfig every(int64_t n, int64_t max = 64) {
  LayerCheckpointConfig config;
  config.checkpoint_every_n_layers = n;
  config.max_checkpoints = max;
  return config;
}

TEST(ActivationCheckpoints, DefaultsAndLayers) {
  const ActivationCheckpointer checkpointer;
  EXPECT_EQ(checkpointer.config().checkpoint_every_n_layers, 4);
  EXPECT_EQ(checkpointer.config().max_checkpoints, 64);
  EXPECT_FALSE(checkpointer.config().use_mixed_precision);
  const ActivationCheckpointer third(every(3));
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(third.is_checkpoint_layer(i), i % 3 == 0);
  }
  EXPECT_FALSE(third.is_checkpoint_layer(-3));
}

TEST(ActivationCheckpoints, SaveAndGet) {
  ActivationCheckpointer checkpointer(every(2, 10));
  const at::Tensor activation = torch::tensor({1.0F, 2.0F, 3.0F, 4.0F});
  checkpointer.save(2, activation);
  EXPECT_TRUE(same_bits(checkpointer.get(2), activation));
  EXPECT_THROW(checkpointer.get(5), InvalidArgument);
  EXPECT_THROW(checkpointer.get(-1), InvalidArgument);
  EXPECT_THROW(checkpointer.save(-1, activation), InvalidArgument);
  EXPECT_THROW(checkpointer.save(1, at::Tensor()), InvalidArgument);
}

TEST(ActivationCheckpoints, ForwardEqualsTheChainAndCountsBytes) {
  live_tensor_bytes();  // the allocator counts from here on
  ActivationCheckpointer checkpointer(every(3, 10));
  const at::Tensor input = torch::randn({256});
  constexpr int64_t kBytes = 256 * 4;
  {
    const at::Tensor output = checkpointer.checkpointed_forward(input, first(6), simple);
    EXPECT_TRUE(same_bits(output, chain(input, 5)));
    EXPECT_EQ(checkpointer.num_checkpoints(), 2);  // layers 0 and 3
    EXPECT_EQ(checkpointer.memory_stored_bytes(), 3 * kBytes);
    EXPECT_EQ(checkpointer.memory_saved_bytes(), 3 * kBytes);  // 1, 2 and 4; the output is still here
  }
  EXPECT_EQ(checkpointer.memory_saved_bytes(), 4 * kBytes);
  const int64_t live = live_tensor_bytes();
  checkpointer.clear();
  EXPECT_EQ(live - live_tensor_bytes(), 2 * kBytes) << "the input is the caller's";
  EXPECT_EQ(checkpointer.num_checkpoints(), 0);
  EXPECT_EQ(checkpointer.memory_saved_bytes(), 0);
  EXPECT_EQ(checkpointer.memory_stored_bytes(), 0);
  EXPECT_THROW(checkpointer.get(0), InvalidArgument);
}

TEST(ActivationCheckpoints, EveryLayerCanBeRecomputed) {
  for (const int64_t n : {1, 2, 3, 5, 100}) {
    ActivationCheckpointer checkpointer(every(n));
    const at::Tensor input = torch::randn({16});
    checkpointer.checkpointed_forward(input, first(11), simple);
    for (int64_t layer = 0; layer < 11; ++layer) {
      int calls = 0;
      const auto counted = [&](const at::Tensor& x, int64_t i) {
        ++calls;
        return simple(x, i);
      };
      EXPECT_TRUE(same_bits(checkpointer.recompute_from_checkpoint(layer, first(11), counted), chain(input, layer)));
      EXPECT_EQ(calls, layer % n) << "from the nearest one";
    }
  }
}

TEST(ActivationCheckpoints, LayersBeforeTheFirstCheckpointComeFromTheInput) {
  ActivationCheckpointer checkpointer(every(4));
  const at::Tensor input = torch::randn({16});
  const std::vector<int64_t> layers = {1, 2, 3, 4, 5};
  checkpointer.checkpointed_forward(input, layers, simple);
  EXPECT_EQ(checkpointer.num_checkpoints(), 1);
  EXPECT_TRUE(same_bits(checkpointer.recompute_from_checkpoint(2, layers, simple), simple(simple(input, 1), 2)));
}

TEST(ActivationCheckpoints, TheOneThatCostsLeastToLoseGoes) {
  ActivationCheckpointer checkpointer(every(1, 3));
  const at::Tensor x = torch::randn({16});
  // Losing c between p and q costs (c - p) * (q - c) layers: 0: 1*5, 5: 5*1, 6: 1*4, 10: 4*1.
  checkpointer.save(0, x);
  checkpointer.save(5, x.clone());
  checkpointer.save(6, x.clone());
  EXPECT_EQ(checkpointer.num_checkpoints(), 3);
  checkpointer.save(10, x.clone());
  EXPECT_EQ(checkpointer.num_checkpoints(), 3);
  EXPECT_THROW(checkpointer.get(6), InvalidArgument);
  checkpointer.get(0);
  checkpointer.get(5);
  checkpointer.get(10);
}

TEST(ActivationCheckpoints, FewSlotsNeverFailAForwardAndStaySpread) {
  for (const int64_t slots : {0, 1, 2, 3, 7}) {
    ActivationCheckpointer checkpointer(every(1, slots));
    const at::Tensor input = torch::randn({16});
    EXPECT_TRUE(same_bits(checkpointer.checkpointed_forward(input, first(64), simple), chain(input, 63)));
    EXPECT_EQ(checkpointer.num_checkpoints(), slots);
    int64_t longest = 0;
    for (int64_t layer = 0; layer < 64; ++layer) {
      int64_t calls = 0;
      const auto counted = [&](const at::Tensor& x, int64_t i) {
        ++calls;
        return simple(x, i);
      };
      EXPECT_TRUE(same_bits(checkpointer.recompute_from_checkpoint(layer, first(64), counted), chain(input, layer)));
      longest = std::max(longest, calls);
    }
    // Evenly spread it would be 64 / (slots + 1).
    EXPECT_LE(longest, 2 * 64 / (slots + 1));
  }
}

TEST(ActivationCheckpoints, SavingAgainReplacesAndCountsStayExact) {
  ActivationCheckpointer checkpointer;
  const int64_t live = live_tensor_bytes();
  checkpointer.save(0, torch::randn({100}));
  EXPECT_EQ(checkpointer.memory_stored_bytes(), 400);
  checkpointer.save(0, torch::randn({50}));
  EXPECT_EQ(checkpointer.memory_stored_bytes(), 200);
  EXPECT_EQ(checkpointer.num_checkpoints(), 1);
  EXPECT_EQ(live_tensor_bytes() - live, 200);
  const at::Tensor shared = torch::randn({100});
  checkpointer.save(4, shared);
  checkpointer.save(8, shared.view({10, 10}));
  EXPECT_EQ(checkpointer.memory_stored_bytes(), 600) << "one storage, counted once";
  checkpointer.save(12, torch::randn({1000}).narrow(0, 3, 10));
  EXPECT_EQ(checkpointer.memory_stored_bytes(), 640) << "a part of a storage does not keep the whole";
  EXPECT_EQ(live_tensor_bytes() - live, 640);
}

TEST(ActivationCheckpoints, MemorySavedIsWhatIsReallyGone) {
  ActivationCheckpointer checkpointer(every(100));
  Tensors held;
  const auto holding = [&](const at::Tensor& x, int64_t i) {
    held.push_back(simple(x, i));
    return held.back();
  };
  checkpointer.checkpointed_forward(torch::randn({256}), first(5), holding);
  EXPECT_EQ(checkpointer.memory_saved_bytes(), 0) << "somebody holds them all";
  held.clear();
  EXPECT_EQ(checkpointer.memory_saved_bytes(), 4 * 1024);
}

TEST(ActivationCheckpoints, HalfPrecisionHalvesBytesWithinTheStatedError) {
  for (const at::ScalarType half : {at::kBFloat16, at::kHalf}) {
    for (const at::ScalarType own : {at::kFloat, at::kDouble}) {
      LayerCheckpointConfig config = every(1);
      config.use_mixed_precision = true;
      config.half_type = half;
      ActivationCheckpointer checkpointer(config);
      // Numbers of all magnitudes that are normal in the half type.
      const at::Tensor x = (torch::rand({10000}, own) + 1) * torch::pow(2, torch::randint(-14, 15, {10000}).to(own)) *
                           (torch::randint(0, 2, {10000}).to(own) * 2 - 1);
      const int64_t live = live_tensor_bytes();
      checkpointer.save(0, x);
      EXPECT_EQ(checkpointer.memory_stored_bytes(), 20000);
      EXPECT_EQ(live_tensor_bytes() - live, 20000);
      const at::Tensor back = checkpointer.get(0);
      EXPECT_EQ(back.scalar_type(), own);
      const double bound = half == at::kHalf ? std::ldexp(1, -11) : std::ldexp(1, -8);
      const double error = ((back - x) / x).abs().max().item<double>();
      EXPECT_LE(error, bound);
      EXPECT_GE(error, bound / 2) << "a bound that is not reached says little";
    }
  }
}

TEST(ActivationCheckpoints, HalfPrecisionOfSmallLargeAndWholeNumbers) {
  LayerCheckpointConfig config = every(1);
  config.use_mixed_precision = true;
  config.half_type = at::kHalf;
  ActivationCheckpointer checkpointer(config);
  const at::Tensor small = torch::rand({1000}) * std::ldexp(1, -14);
  checkpointer.save(0, small);
  EXPECT_LE((checkpointer.get(0) - small).abs().max().item<double>(), std::ldexp(1, -25));
  const at::Tensor large = torch::tensor({70000.0F, 1.0F / 3});
  checkpointer.save(1, large);
  EXPECT_TRUE(same_bits(checkpointer.get(1), large)) << "too large for the type: kept as it is";
  const at::Tensor infinite = torch::full({2}, INFINITY);
  checkpointer.save(2, infinite);
  EXPECT_TRUE(same_bits(checkpointer.get(2), infinite));
  const at::Tensor whole = torch::randint(0, 1 << 30, {8});
  checkpointer.save(3, whole);
  EXPECT_TRUE(same_bits(checkpointer.get(3), whole));
}

TEST(ActivationCheckpoints, RandomLayersDrawTheSameNumbersAgain) {
  const auto layer = [](const at::Tensor& x, int64_t) { return torch::dropout(x * 1.5, 0.5, true); };
  for (const int64_t n : {1, 3, 100}) {
    torch::manual_seed(11);
    ActivationCheckpointer checkpointer(every(n));
    const at::Tensor input = torch::ones({64});
    const at::Tensor output = checkpointer.checkpointed_forward(input, first(7), layer);
    const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    EXPECT_TRUE(same_bits(checkpointer.recompute_from_checkpoint(6, first(7), layer), output));
    EXPECT_TRUE(same_bits(at::detail::getDefaultCPUGenerator().get_state(), state));
  }
}

TEST(ActivationCheckpoints, LayersWithGeneratorsOfTheirOwnDrawTheSameNumbersAgain) {
  for (const int64_t n : {1, 2, 3, 8}) {
    const auto run = [n](bool checkpointed) {
      torch::manual_seed(4);
      // One that every third layer draws from, one that a late layer draws from first, one made anew in each call.
      const at::Generator third = at::make_generator<at::CPUGeneratorImpl>(5);
      const at::Generator late = at::make_generator<at::CPUGeneratorImpl>(6);
      Tensors weights;
      for (int i = 0; i < 8; ++i) {
        weights.push_back(leaf({8}));
      }
      const at::Tensor input = torch::randn({8});
      const at::Tensor half = torch::full({8}, 0.5);
      const auto layer = [&](const at::Tensor& x, int64_t i) {
        const at::Generator own = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(i));
        const at::Tensor mask = at::bernoulli(half, i % 3 == 1 ? third : i == 6 ? late : own);
        return torch::dropout((x * weights[static_cast<size_t>(i)] * mask * 2 + x).sin(), 0.2, true);
      };
      Outcome outcome;
      if (checkpointed) {
        ActivationCheckpointer checkpointer(every(n));
        const at::Tensor output = checkpointer.checkpointed_forward(input, first(8), layer);
        outcome.add("output", output);
        outcome.add("again", checkpointer.recompute_from_checkpoint(7, first(8), layer));
        checkpointer.backward_through(first(8), torch::ones_like(output), layer);
      } else {
        at::Tensor x = input;
        for (const int64_t i : first(8)) {
          x = layer(x, i);
        }
        outcome.add("output", x.detach());
        outcome.add("again", x.detach());
        x.sum().backward();
      }
      for (const at::Tensor& weight : weights) {
        outcome.add("weight gradient", weight.grad());
      }
      outcome.add("third", third.get_state());
      outcome.add("late", late.get_state());
      outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
      return outcome;
    };
    EXPECT_EQ(difference(run(false), run(true)), "") << n;
  }
}

TEST(ActivationCheckpoints, AGeneratorThatTheForwardPassDidNotShowIsAnError) {
  const at::Generator own = at::make_generator<at::CPUGeneratorImpl>(5);
  const at::Tensor half = torch::full({4}, 0.5);
  const auto layer = [&](const at::Tensor& x, int64_t) { return x * at::bernoulli(half, own); };
  ActivationCheckpointer checkpointer(every(2));
  const at::Tensor before = torch::ones({4});
  checkpointer.save(0, before);  // by hand: nobody saw the layers run
  const at::Tensor after = layer(before, 1);
  const at::Tensor state = own.get_state();
  EXPECT_EQ(
      message_of<DeterminismError>([&] { checkpointer.recompute_from_checkpoint(1, first(2), layer); }),
      "layers: layer 1 draws from a generator of its own, from which it did not draw in checkpointed_forward; run "
      "the layers with checkpointed_forward, or draw from the default generator");
  EXPECT_TRUE(same_bits(own.get_state(), state));
}

TEST(ActivationCheckpoints, BackwardThroughTheChainEqualsAutogradAndCallsEachLayerOnce) {
  for (const int64_t n : {1, 3, 4, 100}) {
    constexpr int64_t kLayers = 12;
    torch::manual_seed(4);
    Tensors weights;
    for (int64_t i = 0; i < kLayers; ++i) {
      weights.push_back((torch::randn({16, 16}) / 4).requires_grad_());
    }
    int calls = 0;
    const auto layer = [&](const at::Tensor& x, int64_t i) {
      ++calls;
      return torch::dropout(x.mm(weights[static_cast<size_t>(i)]).tanh(), 0.2, true);
    };
    const at::Tensor input = torch::randn({8, 16});
    const at::Tensor grad_output = torch::randn({8, 16});

    torch::manual_seed(9);
    at::Tensor leaf = input.clone().requires_grad_();
    at::Tensor value = leaf;
    for (int64_t i = 0; i < kLayers; ++i) {
      value = layer(value, i);
    }
    value.backward(grad_output);
    Tensors expected;
    for (at::Tensor& w : weights) {
      expected.push_back(w.grad().clone());
      w.mutable_grad().reset();
    }

    torch::manual_seed(9);
    calls = 0;
    ActivationCheckpointer checkpointer(every(n));
    const at::Tensor output = checkpointer.checkpointed_forward(input, first(kLayers), layer);
    EXPECT_TRUE(same_bits(output, value));
    EXPECT_EQ(calls, kLayers);
    const at::Tensor gradient = checkpointer.backward_through(first(kLayers), grad_output, layer);
    EXPECT_EQ(calls, 2 * kLayers) << "one more call for each layer";
    EXPECT_TRUE(same_bits(gradient, leaf.grad()));
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(same_bits(weights[i].grad(), expected[i])) << i;
    }
  }
}

TEST(ActivationCheckpoints, BackwardHoldsOneSegmentAtATime) {
  constexpr int64_t kLayers = 64;
  constexpr int64_t kBytes = 1024 * 4;
  const auto layer = [](const at::Tensor& x, int64_t) { return x.sin(); };
  const at::Tensor input = torch::randn({1024});
  ActivationCheckpointer checkpointer(every(8));
  const MemoryScope memory;
  const at::Tensor output = checkpointer.checkpointed_forward(input, first(kLayers), layer);
  checkpointer.backward_through(first(kLayers), torch::ones_like(output), layer);
  EXPECT_LE(memory.peak_growth_bytes(), (8 + 8 + 6) * kBytes);
}

TEST(ActivationCheckpoints, ClearErrors) {
  EXPECT_THROW(ActivationCheckpointer(every(0)), InvalidArgument);
  EXPECT_THROW(ActivationCheckpointer(every(-2)), InvalidArgument);
  EXPECT_THROW(ActivationCheckpointer(every(2, -1)), InvalidArgument);
  LayerCheckpointConfig config;
  config.half_type = at::kInt;
  EXPECT_THROW(ActivationCheckpointer{config}, InvalidArgument);

  ActivationCheckpointer checkpointer(every(2));
  const at::Tensor input = torch::ones({4});
  EXPECT_THROW(checkpointer.recompute_from_checkpoint(1, first(4), simple), InvalidArgument) << "nothing kept";
  EXPECT_THROW(checkpointer.checkpointed_forward(input, {}, simple), InvalidArgument);
  EXPECT_THROW(checkpointer.checkpointed_forward(input, {0, 2, 1}, simple), InvalidArgument);
  EXPECT_THROW(checkpointer.checkpointed_forward(input, {0, 0}, simple), InvalidArgument);
  EXPECT_THROW(checkpointer.checkpointed_forward(input, {-1, 0}, simple), InvalidArgument);
  EXPECT_THROW(checkpointer.checkpointed_forward(at::Tensor(), first(2), simple), InvalidArgument);
  EXPECT_THROW(checkpointer.checkpointed_forward(input, first(2), nullptr), InvalidArgument);
  EXPECT_THROW(
      checkpointer.checkpointed_forward(input, first(2), [](const at::Tensor&, int64_t) { return at::Tensor(); }),
      InvalidArgument);

  checkpointer.checkpointed_forward(input, first(4), simple);
  EXPECT_THROW(checkpointer.recompute_from_checkpoint(9, first(4), simple), InvalidArgument) << "an unknown layer";
  EXPECT_THROW(checkpointer.backward_through(first(4), torch::ones({5}), simple), InvalidArgument);
  const auto other_shape = [](const at::Tensor& x, int64_t) { return torch::cat({x, x}); };
  EXPECT_THROW(checkpointer.recompute_from_checkpoint(3, first(4), other_shape), DeterminismError);
  const auto throws = [](const at::Tensor&, int64_t) -> at::Tensor { throw std::runtime_error("mine"); };
  try {
    checkpointer.recompute_from_checkpoint(3, first(4), throws);
    FAIL();
  } catch (const ReplayError& error) {
    EXPECT_EQ(std::string(error.what()), "layers: layer 3 threw when it was called again: mine");
  }
  EXPECT_THROW(checkpointer.checkpointed_forward(input, first(4), throws), std::runtime_error);
}

TEST(ActivationCheckpoints, ActivationsChangedInPlaceAreAnErrorThatNamesThem) {
  ActivationCheckpointer checkpointer(every(1));
  const auto in_place = [](const at::Tensor& x, int64_t i) { return i == 2 ? x.mul_(2) : x * 2; };
  checkpointer.checkpointed_forward(torch::ones({4}), first(4), in_place);
  try {
    checkpointer.get(1);
    FAIL();
  } catch (const ChangedError& error) {
    EXPECT_NE(std::string(error.what()).find("layer 1"), std::string::npos);
  }
}

}  // namespace
}  // namespace encore::test
