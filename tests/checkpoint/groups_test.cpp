// checkpoint_segment, groups, and single tensors.
#include <thread>

#include "support/oracle.h"

namespace encore::test {
namespace {

using Pair = std::tuple<at::Tensor, at::Tensor>;
using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor leaf() {
  return torch::randn({16, 16}).requires_grad_();
}

TEST(CheckpointSegments, TakeArraysVectorsAndBracedLists) {
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  const auto f = [](const auto& x) { return (x[0].sin() * x[1].exp()).tanh(); };
  const Tensors expected = torch::autograd::grad({f(Tensors{a, b}).sum()}, {a, b});
  const std::array<at::Tensor, 2> array = {a, b};
  for (const at::Tensor& output :
       {checkpoint_segment(array, f), checkpoint_segment(Tensors{a, b}, f), checkpoint_segment({a, b}, f)}) {
    const Tensors actual = torch::autograd::grad({output.sum()}, {a, b});
    EXPECT_TRUE(same_bits(actual[0], expected[0]));
    EXPECT_TRUE(same_bits(actual[1], expected[1]));
  }
  EXPECT_THROW(checkpoint_segment(Tensors{}, f), InvalidArgument);
  EXPECT_THROW(checkpoint_segment(std::initializer_list<at::Tensor>{}, f), InvalidArgument);
}

TEST(CheckpointSegments, DropWhatIsInside) {
  const at::Tensor a = leaf();
  const CheckpointProfiler profiler;
  const at::Tensor y = checkpoint_segment({a, a}, [](const Tensors& x) { return (x[0].sin() * x[1].exp()).sin(); });
  y.sum().backward();
  EXPECT_EQ(profiler.report().memory_saved_bytes, 3 * 16 * 16 * 4);
}

TEST(CheckpointGroups, OneTwoThreeAndManyOutputsTuplesInAndOut) {
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  const auto one = [](const at::Tensor& x, const at::Tensor& y) { return x.mm(y).tanh().exp(); };
  const auto two = [](const Pair& in) {
    const at::Tensor x = std::get<0>(in).sin();
    return Pair{x.exp(), x * std::get<1>(in)};
  };
  const auto three = [](const Tensors& in) { return Triple{in[0].sin().exp(), in[1].cos().exp(), in[0] * in[1]}; };
  const auto many = [](const at::Tensor& x) {
    Tensors results;
    for (int i = 0; i < 5; ++i) {
      results.push_back((x * i).sin().exp());
    }
    return results;
  };
  const auto run = [&](const auto& call) {
    at::Tensor loss = call(one, a, b).sum();
    const Pair pair = call(two, Pair{a, b});
    loss = loss + std::get<0>(pair).sum() + std::get<1>(pair).sum();
    const Triple triple = call(three, Tensors{a, b});
    loss = loss + std::get<0>(triple).sum() + std::get<1>(triple).sum() + std::get<2>(triple).sum();
    for (const at::Tensor& each : call(many, a)) {
      loss = loss + each.sum();
    }
    return torch::autograd::grad({loss}, {a, b});
  };
  const Tensors expected = run([](const auto& f, const auto&... args) { return f(args...); });
  const CheckpointGroup group;
  const Tensors actual = run([&](const auto& f, const auto&... args) { return group.checkpoint(f, args...); });
  EXPECT_TRUE(same_bits(actual[0], expected[0]));
  EXPECT_TRUE(same_bits(actual[1], expected[1]));
  EXPECT_THROW(group.checkpoint([] { return torch::ones({}); }), InvalidArgument);
}

TEST(CheckpointGroups, AreRecomputedTogetherOnce) {
  const auto f = [](const at::Tensor& x) { return x.sin().exp().sin(); };
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  for (const bool in_scope : {false, true}) {
    const std::optional<Scope> scope = in_scope ? std::make_optional<Scope>() : std::nullopt;
    CheckpointOptions options;
    options.name = "heads";
    const CheckpointGroup group(options);
    const CheckpointGroup copy = group;
    const at::Tensor first = group.checkpoint(f, a);
    const at::Tensor second = copy.checkpoint(f, b);
    const CheckpointProfiler profiler;
    // Backward of one brings back the values of both, which are there until this backward ends.
    const at::Tensor loss = first.sum() + second.sum();
    int64_t replays_at_first = 0;
    second.register_hook([&](const at::Tensor&) { replays_at_first = profiler.report().ops_replayed; });
    loss.backward();
    const ProfilerReport report = profiler.report();
    ASSERT_EQ(report.rows.size(), 1u);
    EXPECT_EQ(report.rows[0].name, "heads");
    EXPECT_EQ(report.ops_replayed, 4) << "sin and exp of each, once";
    ASSERT_EQ(report.rows[0].replays.size(), 2u);
  }
}

TEST(CheckpointGroups, TheFirstValueAskedForBringsBackAll) {
  const auto f = [](const at::Tensor& x) { return x.sin().exp().sin(); };
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  const auto ops_of_first_backward = [&](bool grouped) {
    const CheckpointGroup group;
    const at::Tensor first = grouped ? group.checkpoint(f, a) : checkpoint(f, a);
    const at::Tensor second = grouped ? group.checkpoint(f, b) : checkpoint(f, b);
    const CheckpointProfiler profiler;
    first.sum().backward();
    return profiler.report().ops_replayed;
  };
  EXPECT_EQ(ops_of_first_backward(false), 2);
  EXPECT_EQ(ops_of_first_backward(true), 4);
}

TEST(CheckpointGroups, AMemberThatCannotComeBackFailsOnlyItsOwnBackward) {
  const auto f = [](const at::Tensor& x) { return x.sin().exp().sin(); };
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  const at::Tensor expected = torch::autograd::grad({f(a).sum()}, {a})[0];
  const CheckpointGroup group;
  const at::Tensor first = group.checkpoint(f, a);
  at::Tensor changed = b * 2;
  const at::Tensor second = group.checkpoint(f, changed);
  changed.add_(1);
  EXPECT_TRUE(same_bits(torch::autograd::grad({first.sum()}, {a})[0], expected));
  EXPECT_THROW(second.sum().backward(), ChangedError);
}

TEST(CheckpointGroups, LastForManyStepsAndLeaveNothingBehind) {
  const CheckpointGroup group;
  const at::Tensor a = leaf();
  const auto step = [&] {
    group.checkpoint([](const at::Tensor& x) { return x.sin().exp().sin(); }, a).sum().backward();
    a.mutable_grad().reset();
  };
  step();
  const int64_t live = live_tensor_bytes();
  const CheckpointProfiler profiler;
  for (int i = 0; i < 50; ++i) {
    step();
  }
  EXPECT_EQ(live_tensor_bytes(), live);
  EXPECT_EQ(profiler.report().ops_replayed, 50 * 2);
}

TEST(CheckpointGroups, MayBeSharedByThreads) {
  const CheckpointGroup group;
  const at::Tensor a = leaf();
  const auto f = [](const at::Tensor& x) { return x.sin().exp().mul(x).sin(); };
  const at::Tensor expected = torch::autograd::grad({f(a).sum()}, {a})[0];
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensors actual = torch::autograd::grad({group.checkpoint(f, a).sum()}, {a});
        wrong[t] += same_bits(actual[0], expected) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(CheckpointGroups, RefuseFunctionsThatAreCalledAgain) {
  CheckpointOptions options;
  options.recompute = Recompute::kRerun;
  EXPECT_THROW(CheckpointGroup{options}, InvalidArgument);
}

TEST(SingleTensors, LargerThanTheThresholdStrictly) {
  const at::Tensor x = torch::randn({16}).requires_grad_();
  Scope scope;
  const at::Tensor y = adaptive_checkpoint(x.exp(), 64).sin();  // 16 floats are 64 bytes
  EXPECT_EQ(scope.stats().values_dropped, 0);
  const at::Tensor z = adaptive_checkpoint(x.exp(), 63).sin();
  EXPECT_EQ(scope.stats().values_dropped, 1);
  EXPECT_EQ(scope.stats().bytes_dropped, 64);
  (y + z).sum().backward();
  EXPECT_EQ(scope.stats().ops_replayed, 1);
}

TEST(SingleTensors, AnywhereAfterAnyOpOnViewsAndTwice) {
  const auto run = [](const std::function<at::Tensor(const at::Tensor&)>& mark) {
    torch::manual_seed(5);
    const at::Tensor x = torch::randn({8, 8}).requires_grad_();
    const at::Tensor w = torch::randn({8, 8}).requires_grad_();
    at::Tensor value = mark(x.mm(w));
    value = mark(mark(value.relu()));
    value = mark(value.t()).mm(w);
    value = mark(torch::dropout(value, 0.5, true));
    value = mark(value.view({4, 16})[1]).sin();
    mark(value);
    value = mark(mark(value.mul_(2)).view({16}).tanh());
    value = mark(value.softmax(0)).log();
    Outcome outcome;
    backward_of_sum({value}, {x, w}, outcome);
    outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
    return outcome;
  };
  const Outcome expected = run([](const at::Tensor& t) { return t; });
  const Scope scope;
  EXPECT_EQ(difference(expected, run([](const at::Tensor& t) { return checkpoint(t); })), "");
  EXPECT_EQ(scope.stats().values_dropped, 4);
  EXPECT_GT(scope.stats().ops_replayed, 4);
}

TEST(SingleTensors, AnInputIsKeptAndReportedAsSuch) {
  const at::Tensor x = torch::randn({8}).requires_grad_();
  const CheckpointProfiler profiler;
  Scope scope(keep_all(), "train");
  const at::Tensor y = checkpoint(x).sin();
  EXPECT_EQ(scope.stats().marked_but_kept, 1);
  EXPECT_EQ(scope.stats().values_dropped, 0);
  y.sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), x.detach().cos()));
  const ProfilerReport report = profiler.report();
  EXPECT_EQ(report.checkpoint_count, 1);
  EXPECT_EQ(report.memory_saved_bytes, 0);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0].name, "train/input");
  EXPECT_NE(report.warnings[0].reason.find("outside the scope"), std::string::npos);
}

TEST(SingleTensors, NeedAScope) {
  EXPECT_THROW(checkpoint(torch::ones({2})), ScopeError);
  EXPECT_THROW(adaptive_checkpoint(torch::ones({2}), 0), ScopeError);
  const Scope scope;
  EXPECT_THROW(checkpoint(at::Tensor()), InvalidArgument);
}

}  // namespace
}  // namespace encore::test
