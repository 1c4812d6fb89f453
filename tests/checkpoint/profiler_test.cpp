// The profiler's figures agree with the allocator and the tape, and name each checkpoint that saved nothing.
#include <thread>

#include "support/oracle.h"

namespace encore::test {
namespace {

constexpr int64_t kBytes = 1024 * 4;

at::Tensor leaf() {
  return torch::randn({1024}).requires_grad_();
}

at::Tensor sines(const at::Tensor& x) {
  return x.sin().sin().sin().sin();
}

CheckpointOptions named_options(const std::string& name) {
  CheckpointOptions options;
  options.name = name;
  return options;
}

const CheckpointRow& row(const ProfilerReport& report, const std::string& name) {
  for (const CheckpointRow& each : report.rows) {
    if (each.name == name) {
      return each;
    }
  }
  throw std::out_of_range(name);
}

std::string reason(const ProfilerReport& report, const std::string& name) {
  for (const CheckpointWarning& each : report.warnings) {
    if (each.name == name) {
      return each.reason;
    }
  }
  return "";
}

TEST(Profiler, SavedBytesAreWhatTheAllocatorSays) {
  live_tensor_bytes();
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    CheckpointOptions options = named_options("block");
    options.recompute = recompute;
    const at::Tensor x = leaf();
    const int64_t live = live_tensor_bytes();
    int64_t plain = 0;
    {
      const at::Tensor y = sines(x);
      plain = live_tensor_bytes() - live;
    }
    const CheckpointProfiler profiler;
    const at::Tensor y = checkpoint(options, sines, x);
    const int64_t checkpointed = live_tensor_bytes() - live;
    EXPECT_EQ(profiler.report().memory_saved_bytes, plain - checkpointed);
    EXPECT_EQ(profiler.report().memory_saved_bytes, 3 * kBytes);
    y.sum().backward();
    const ProfilerReport report = profiler.report();
    EXPECT_EQ(report.checkpoint_count, 1);
    EXPECT_EQ(report.rows.size(), 1u);
    EXPECT_EQ(row(report, "block").calls, 1);
    EXPECT_EQ(row(report, "block").values_dropped, 3);
    EXPECT_EQ(row(report, "block").values_kept, 0);
    EXPECT_EQ(row(report, "block").bytes_saved, 3 * kBytes);
    EXPECT_GE(row(report, "block").ops_replayed, 3);
    EXPECT_GT(row(report, "block").replay_ns, 0);
    ASSERT_EQ(row(report, "block").replays.size(), 1u);
    const ReplaySample& sample = row(report, "block").replays[0];
    EXPECT_EQ(sample.ops, report.ops_replayed);
    EXPECT_EQ(sample.live_bytes_after - sample.live_bytes_before, 3 * kBytes);
    EXPECT_TRUE(report.warnings.empty()) << report.text();
  }
}

TEST(Profiler, RowsByNameAndTotals) {
  const at::Tensor x = leaf();
  const CheckpointProfiler profiler;
  at::Tensor y = x;
  for (int i = 0; i < 3; ++i) {
    y = checkpoint(named_options("a"), sines, y);
  }
  {
    const Scope scope(keep_all(), "outer");
    y = checkpoint(named_options("b"), sines, y);
    y = checkpoint(y.exp());
    y = y.sin();
  }
  y.sum().backward();
  const ProfilerReport report = profiler.report();
  EXPECT_EQ(row(report, "a").calls, 3);
  EXPECT_EQ(row(report, "a").bytes_saved, 9 * kBytes);
  EXPECT_EQ(row(report, "outer/b").calls, 1);
  EXPECT_EQ(row(report, "outer/b").bytes_saved, 3 * kBytes);
  EXPECT_EQ(row(report, "outer/aten::exp").calls, 1);
  EXPECT_EQ(row(report, "outer/aten::exp").bytes_saved, kBytes);
  EXPECT_EQ(report.checkpoint_count, 5);
  EXPECT_EQ(report.memory_saved_bytes, 13 * kBytes);
  int64_t ops = 0;
  for (const CheckpointRow& each : report.rows) {
    ops += each.ops_replayed;
  }
  EXPECT_EQ(ops, report.ops_replayed);
  const std::string text = report.text();
  EXPECT_NE(text.find("outer/b"), std::string::npos) << text;
  EXPECT_NE(text.find("52.0 KiB"), std::string::npos) << text;
}

TEST(Profiler, ScopesThatAreStillOpenWhenBackwardBegins) {
  const at::Tensor x = leaf();
  const CheckpointProfiler profiler;
  {
    const Scope marks(keep_all(), "marks");
    // In one expression the marked tensor would live, as a temporary, until after backward.
    const at::Tensor loss = checkpoint(x.exp()).sin().sum();
    loss.backward();
    EXPECT_EQ(row(profiler.report(), "marks/aten::exp").bytes_saved, kBytes);
  }
  {
    const Scope drops(drop_all(), "drops");
    for (int i = 0; i < 2; ++i) {
      sines(x).sum().backward();
    }
  }
  const ProfilerReport report = profiler.report();
  EXPECT_EQ(row(report, "marks/aten::exp").bytes_saved, kBytes);
  EXPECT_EQ(row(report, "drops").calls, 1);
  EXPECT_EQ(row(report, "drops").bytes_saved, 2 * 3 * kBytes);
  EXPECT_EQ(report.memory_saved_bytes, 7 * kBytes);
  EXPECT_EQ(report.checkpoint_count, 2);
  EXPECT_TRUE(report.warnings.empty()) << report.text();
}

TEST(Profiler, StartAndStop) {
  EXPECT_THROW(CheckpointProfiler::memory_saved(), ScopeError);
  const at::Tensor x = leaf();
  const auto step = [&] { checkpoint(sines, x).sum().backward(); };
  step();
  CheckpointProfiler::start_tracking();
  CheckpointProfiler::start_tracking();
  EXPECT_EQ(CheckpointProfiler::checkpoint_count(), 0);
  step();
  step();
  EXPECT_EQ(CheckpointProfiler::checkpoint_count(), 2);
  EXPECT_EQ(CheckpointProfiler::memory_saved(), 6 * kBytes);
  CheckpointProfiler::stop_tracking();
  step();
  EXPECT_EQ(CheckpointProfiler::checkpoint_count(), 2);
  EXPECT_EQ(CheckpointProfiler::tracked().ops_replayed, 6);
  CheckpointProfiler::start_tracking();
  step();
  EXPECT_EQ(CheckpointProfiler::checkpoint_count(), 3);
  CheckpointProfiler::reset();
  EXPECT_EQ(CheckpointProfiler::checkpoint_count(), 0);
  EXPECT_EQ(CheckpointProfiler::memory_saved(), 0);
  CheckpointProfiler::stop_tracking();
  CheckpointProfiler::stop_tracking();
}

TEST(Profiler, SeesAllThreadsAndNests) {
  const CheckpointProfiler outer;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 10; ++i) {
        const CheckpointProfiler inner;
        checkpoint(sines, leaf()).sum().backward();
        EXPECT_GE(inner.report().checkpoint_count, 1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(outer.report().checkpoint_count, 40);
  EXPECT_EQ(outer.report().ops_replayed, 40 * 3);
}

TEST(Profiler, ValuesThatSomethingElseHoldsSavedNothing) {
  const at::Tensor x = leaf();
  Tensors held;
  const CheckpointProfiler profiler;
  const auto f = [&](const at::Tensor& in) {
    held.push_back(in.sin());
    held.push_back(held.back().sin());
    return held.back().sin();
  };
  checkpoint(named_options("holds all"), f, x).sum().backward();
  held.clear();
  const ProfilerReport report = profiler.report();
  EXPECT_EQ(report.memory_saved_bytes, 0);
  EXPECT_EQ(row(report, "holds all").values_dropped, 2);
  EXPECT_EQ(row(report, "holds all").bytes_still_alive, 2 * kBytes);
  EXPECT_EQ(reason(report, "holds all"), "what it dropped is still held by something else");
  EXPECT_NE(report.text().find("warning: holds all saved nothing, 1 time"), std::string::npos) << report.text();
}

TEST(Profiler, GivesTheReasonForEachCheckpointThatSavedNothing) {
  const at::Tensor x = leaf();
  const CheckpointProfiler profiler;
  // An op that saves only its result, which is the caller's.
  checkpoint(
      named_options("result"), [](const at::Tensor& in) { return in.exp(); }, x)
      .sum()
      .backward();
  // An op that saves only its input, which entered.
  checkpoint(
      named_options("input"), [](const at::Tensor& in) { return in.sin(); }, x)
      .sum()
      .backward();
  checkpoint(named_options("no gradient"), sines, x.detach());
  {
    const at::NoGradGuard no_grad;
    checkpoint(named_options("off"), sines, x);
    checkpoint(named_options("off"), sines, x);
  }
  CheckpointOptions keeps = named_options("keeps");
  keeps.policy = keep_all();
  checkpoint(keeps, sines, x).sum().backward();
  CheckpointOptions random = named_options("random");
  random.preserve_rng_state = false;
  checkpoint(
      random, [](const at::Tensor& in) { return in * torch::rand({1024}); }, x)
      .sum()
      .backward();
  checkpoint(named_options("dropped"), sines, x);
  checkpoint(named_options("good"), sines, x).sum().backward();
  const ProfilerReport report = profiler.report();
  EXPECT_EQ(reason(report, "result"), "what it dropped is still held by something else") << report.text();
  EXPECT_NE(reason(report, "input").find("only what entered"), std::string::npos) << report.text();
  EXPECT_NE(reason(report, "no gradient").find("requires a gradient"), std::string::npos) << report.text();
  EXPECT_EQ(reason(report, "off"), "gradients are off, so autograd saves nothing");
  EXPECT_EQ(reason(report, "keeps"), "its policy keeps all 3 values that were saved");
  EXPECT_NE(reason(report, "random"), "") << report.text();
  EXPECT_EQ(reason(report, "dropped"), "its graph was dropped before a backward");
  EXPECT_EQ(reason(report, "good"), "");
  EXPECT_EQ(report.memory_saved_bytes, 3 * kBytes);
  EXPECT_EQ(report.checkpoint_count, 9);
}

TEST(Profiler, KeepsNothingAlive) {
  const at::Tensor x = leaf();
  const CheckpointProfiler profiler;
  const int64_t live = live_tensor_bytes();
  checkpoint(sines, x);
  EXPECT_EQ(live_tensor_bytes(), live);
  { const at::Tensor y = checkpoint(sines, x); }
  EXPECT_EQ(live_tensor_bytes(), live);
}

}  // namespace
}  // namespace encore::test
