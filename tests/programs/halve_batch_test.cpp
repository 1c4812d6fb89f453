// Catch the refusal, halve the batch, go on: what is trained is what the batches that fitted train alone.
#include <algorithm>

#include "programs/programs.h"
#include "support/oracle.h"

namespace encore::test {
namespace {

constexpr int64_t kWidth = 64;

/// Linear, batch norm, dropout; Adam. One object trains one way from one seed.
class Trainer {
 public:
  Trainer() {
    torch::manual_seed(2);
    for (int layer = 0; layer < 8; ++layer) {
      model_->push_back(torch::nn::Linear(kWidth, kWidth));
      model_->push_back(torch::nn::BatchNorm1d(kWidth));
      model_->push_back(torch::nn::GELU());
      model_->push_back(torch::nn::Dropout(0.2));
    }
    adam_ = std::make_unique<torch::optim::Adam>(model_->parameters(), torch::optim::AdamOptions(1e-3));
    rows_ = torch::randn({2048, kWidth});
  }

  void forward_and_backward(int64_t batch) {
    losses_.push_back(model_->forward(rows_.slice(0, 0, batch)).square().mean());
    losses_.back().backward();
    losses_.back() = losses_.back().detach();
  }
  void zero_grad() { adam_->zero_grad(); }
  void update() { adam_->step(); }
  void whole_step(int64_t batch) {
    zero_grad();
    forward_and_backward(batch);
    update();
  }
  /// The step was refused: its loss is none of what was trained.
  void keep_losses(size_t count) { losses_.resize(count); }
  size_t losses() const { return losses_.size(); }

  Outcome outcome() const {
    Outcome outcome;
    for (const auto& parameter : model_->named_parameters()) {
      outcome.add(parameter.key(), parameter.value());
      outcome.add(parameter.key() + "'s gradient", parameter.value().grad());
    }
    for (const auto& buffer : model_->named_buffers()) {
      outcome.add(buffer.key(), buffer.value());
    }
    for (size_t i = 0; i < losses_.size(); ++i) {
      outcome.add("loss " + std::to_string(i), losses_[i]);
    }
    outcome.generator = at::detail::getDefaultCPUGenerator().get_state();
    return outcome;
  }

 private:
  torch::nn::Sequential model_;
  std::unique_ptr<torch::optim::Adam> adam_;
  torch::Tensor rows_;
  std::vector<torch::Tensor> losses_;
};

int64_t plain_peak(int64_t batch) {
  Trainer trainer;
  trainer.whole_step(batch);
  const MemoryScope memory;
  trainer.whole_step(batch);
  return memory.peak_bytes();
}

/// Tries `wanted` batches in turn, each halved until it fits; gives those that were trained.
template <class Body>
std::vector<int64_t> halve_until_it_fits(Trainer& trainer, MemoryBudget& budget, const std::vector<int64_t>& wanted,
                                         const Body& body) {
  std::vector<int64_t> trained;
  for (int64_t batch : wanted) {
    for (bool fits = false; !fits;) {
      const size_t losses = trainer.losses();
      try {
        const auto step = budget.step();
        body(trainer, batch);
        fits = true;
      } catch (const BudgetError&) {
        trainer.keep_losses(losses);
        batch /= 2;
        if (batch < 16) {
          throw;
        }
      }
    }
    trained.push_back(batch);
  }
  return trained;
}

/// By percent of what the largest batch needs plainly, so that steps are refused at many places.
class HalvedBatch : public ::testing::TestWithParam<int> {
 protected:
  int64_t limit() const { return plain_peak(2048) * GetParam() / 100; }
};

TEST_P(HalvedBatch, TrainsWhatTheHalvesTrainAlone) {
  MemoryBudget budget(limit());
  std::vector<int64_t> trained;
  Outcome ours;
  {
    Trainer trainer;
    trained = halve_until_it_fits(trainer, budget, {2048, 2048, 256, 1024, 2048},
                                  [](Trainer& t, int64_t batch) { t.whole_step(batch); });
    ours = trainer.outcome();
  }
  EXPECT_LT(*std::max_element(trained.begin(), trained.end()), 2048) << "nothing was refused";
  Trainer alone;
  for (const int64_t batch : trained) {
    alone.whole_step(batch);
  }
  EXPECT_EQ(difference(alone.outcome(), ours), "");
}

TEST_P(HalvedBatch, AddsOnlyTheGradientsOfTheHalves) {
  MemoryBudget budget(limit());
  std::vector<int64_t> trained;
  Outcome ours;
  {
    Trainer trainer;
    trained = halve_until_it_fits(trainer, budget, {256, 2048, 2048, 512},
                                  [](Trainer& t, int64_t batch) { t.forward_and_backward(batch); });
    trainer.update();
    ours = trainer.outcome();
  }
  EXPECT_LT(*std::max_element(trained.begin(), trained.end()), 2048) << "nothing was refused";
  Trainer alone;
  for (const int64_t batch : trained) {
    alone.forward_and_backward(batch);
  }
  alone.update();
  EXPECT_EQ(difference(alone.outcome(), ours), "");
}

INSTANTIATE_TEST_SUITE_P(Percent, HalvedBatch, ::testing::Values(9, 10, 11, 12, 13, 14));

}  // namespace
}  // namespace encore::test
