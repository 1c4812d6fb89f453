// The GPT with one checkpoint a block: how much memory its activations take, and how many ops run again.
#include "workloads/gpt.h"

#include <set>
#include <sstream>

#include "support/oracle.h"

namespace encore::test {
namespace {

using workloads::Gpt;
using workloads::GptConfig;

/// The model of the benchmarks at a size that suits a test; it shrinks in every dimension but the number of layers.
GptConfig small_gpt() {
  GptConfig config;
  config.width = 96;
  config.heads = 3;
  config.tokens = 64;
  config.batch = 2;
  return config;
}

Gpt make_gpt(const GptConfig& config) {
  torch::manual_seed(11);
  return Gpt(config);
}

Outcome gradients(Gpt& model, const at::Tensor& loss) {
  Outcome outcome;
  outcome.add("loss", loss);
  for (const auto& parameter : model->named_parameters()) {
    outcome.add(parameter.key(), parameter.value().grad());
  }
  outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
  return outcome;
}

TEST(GptPerBlock, GradientsAreThoseOfThePlainStep) {
  const GptConfig config = small_gpt();
  const auto [tokens, targets] = workloads::make_batch(config, 5);
  const auto step = [&, &x = tokens, &y = targets](const auto& run_block) {
    Gpt model = make_gpt(config);
    const at::Tensor loss = model->forward(x, y, run_block);
    loss.backward();
    return gradients(model, loss);
  };
  const Outcome plain = step(nullptr);
  for (const Recompute recompute : {Recompute::kReplay, Recompute::kRerun}) {
    CheckpointOptions options;
    options.recompute = recompute;
    options.determinism_check = DeterminismCheck::kValues;
    EXPECT_EQ(difference(plain, step([&](workloads::Block& block, const at::Tensor& x) {
                           return checkpoint(options, block, x);
                         })),
              "");
  }
}

/// Bytes that a plain forward of one block leaves alive, its output included.
int64_t block_activation_bytes(const GptConfig& config) {
  workloads::Block block(config);
  const at::Tensor x = torch::randn({config.batch, config.tokens, config.width}).requires_grad_();
  const int64_t before = live_tensor_bytes();
  const at::Tensor y = block(x);
  return live_tensor_bytes() - before;
}

TEST(GptPerBlock, ActivationsTakeTheBlocksInputsAndOneBlock) {
  const GptConfig config = small_gpt();
  Gpt model = make_gpt(config);
  const auto [tokens, targets] = workloads::make_batch(config, 5);
  const int64_t input_bytes = config.batch * config.tokens * config.width * 4;
  const int64_t block_bytes = block_activation_bytes(config);
  const int64_t resting = live_tensor_bytes();

  // At the moment that backward enters a block, `live` holds the inputs of all blocks before it and the gradients that
  // flow; what comes on top while the block's values are brought back are its activations.
  struct Entry {
    int64_t live = 0;
    int64_t after = 0;
  };
  std::vector<Entry> entries;
  CheckpointProfiler profiler;
  const MemoryScope forward;
  const at::Tensor loss = model->forward(tokens, targets, [&](workloads::Block& block, const at::Tensor& x) {
    const auto watched = [&block](const at::Tensor& in) { return block(in); };
    const at::Tensor y = checkpoint(watched, x);
    y.register_hook([&](const at::Tensor&) { entries.push_back({live_tensor_bytes(), 0}); });
    return y;
  });
  const int64_t forward_peak = forward.peak_bytes() - resting;
  {
    loss.backward();
    const ProfilerReport report = profiler.report();
    ASSERT_EQ(report.rows.size(), 1U);
    const auto& replays = report.rows[0].replays;
    ASSERT_EQ(replays.size(), static_cast<size_t>(config.layers));
    ASSERT_EQ(entries.size(), replays.size());
    for (size_t i = 0; i < replays.size(); ++i) {
      entries[i].after = replays[i].live_bytes_after;
      // Gradients that were alive before the block was entered are not activations.
      const int64_t kept_inputs = input_bytes * (config.layers - static_cast<int64_t>(i));
      const int64_t activations = entries[i].after - entries[i].live + kept_inputs;
      EXPECT_LE(static_cast<double>(activations), 1.03 * static_cast<double>(input_bytes * config.layers + block_bytes))
          << "block " << i << " from the end";
    }
  }
  EXPECT_LE(static_cast<double>(forward_peak), 1.03 * static_cast<double>(input_bytes * config.layers + block_bytes));
}

TEST(GptPerBlock, RerunHoldsTheBlocksInputsAlone) {
  const GptConfig config = small_gpt();
  Gpt model = make_gpt(config);
  const auto [tokens, targets] = workloads::make_batch(config, 5);
  const int64_t input_bytes = config.batch * config.tokens * config.width * 4;
  CheckpointOptions options;
  options.recompute = Recompute::kRerun;
  std::vector<int64_t> live;
  const at::Tensor loss = model->forward(tokens, targets, [&](workloads::Block& block, const at::Tensor& x) {
    live.push_back(live_tensor_bytes());
    return checkpoint(options, block, x);
  });
  for (size_t i = 1; i < live.size(); ++i) {
    EXPECT_EQ(live[i] - live[i - 1], input_bytes) << "block " << i - 1;
  }
}

/// How many of the tape's ops first .. last-1 made or wrote a value; the rest are views. Read from the tape's text.
int64_t count_computing_ops(const std::string& dump, int64_t first, int64_t last) {
  std::istringstream lines(dump);
  std::string line;
  std::getline(lines, line);
  std::set<std::string> known;
  int64_t count = 0;
  for (int64_t op = 0; std::getline(lines, line); ++op) {
    const size_t results = line.find(" ->");
    bool computes = line.find(" writes ") != std::string::npos;
    std::istringstream words(results == std::string::npos ? "" : line.substr(results + 3));
    for (std::string word; words >> word;) {
      computes = (word[0] == '%' && known.insert(word).second) || computes;
    }
    // Values from outside are known by their use as arguments.
    std::istringstream arguments(line.substr(0, results));
    for (std::string word; arguments >> word;) {
      const size_t value = word.find('%');
      if (value != std::string::npos) {
        known.insert(word.substr(value));
      }
    }
    count += computes && op >= first && op < last ? 1 : 0;
  }
  return count;
}

int64_t mask_bits_of_a_block(const GptConfig& config) {
  const int64_t attention = config.batch * config.heads * config.tokens * config.tokens;
  const int64_t residual = config.batch * config.tokens * config.width;
  return attention + 2 * residual;
}

TEST(GptPerBlock, OnlyOpsThatBackwardNeedsRunAgain) {
  const GptConfig config = small_gpt();
  Gpt model = make_gpt(config);
  const auto [tokens, targets] = workloads::make_batch(config, 5);
  Scope scope(keep_all());
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const at::Tensor loss = model->forward(tokens, targets, [&](workloads::Block& block, const at::Tensor& x) {
    const int64_t first = scope.stats().ops_recorded;
    const at::Tensor y = checkpoint(block, x);
    ranges.emplace_back(first, scope.stats().ops_recorded);
    return y;
  });
  scope.end();
  loss.backward();
  const ScopeStats stats = scope.stats();
  EXPECT_EQ(stats.replays, config.layers) << "each block is brought back once";
  // Backward needs no view, and none of a block's last product, the multiplication by its dropout mask, and its sum.
  int64_t needed = 0;
  for (const auto& [first, last] : ranges) {
    needed += count_computing_ops(scope.dump(), first, last) - 3;
  }
  EXPECT_LE(stats.ops_replayed, needed);
  EXPECT_EQ(stats.bytes_packed, config.layers * mask_bits_of_a_block(config) / 8) << "masks are not drawn again";
  EXPECT_GT(stats.ops_replayed, needed / 2) << "nothing was dropped";
}

}  // namespace
}  // namespace encore::test
