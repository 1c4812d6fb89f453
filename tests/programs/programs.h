// Small programs as users write them, each run plainly and within budgets by two added lines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "support/torch_pch.h"

namespace encore::test {

/// How a program is run: plainly, within a part of what it needs, or within bytes.
struct Way {
  double part = 0;
  int64_t bytes = 0;

  bool plain() const { return part == 0 && bytes == 0; }
};
std::ostream& operator<<(std::ostream& out, const Way& way);

/// What a run leaves behind. Bytes, not tensors: those would be counted in the next run.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::string> tensors;  // name -> type, shape and bytes
  int64_t peak_bytes = 0;                      // the most of all steps, all tensors of the process
  int64_t limit_bytes = -1;                    // the most of all steps
  std::optional<BudgetError::Figures> refused;
  std::string refusal;
  int64_t steps = 0;  // that were begun
};

/// A run of a program: makes its budget, measures its steps and takes what it trained.
class Run {
 public:
  explicit Run(Way way) : way_(way) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// One step, measured from outside: its peak must not pass the limit that was known when it began.
  class Step {
   public:
    explicit Step(Run& run);
    ~Step();
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Run& run_;
    int64_t number_;
    int64_t limit_bytes_ = -1;
    MemoryScope memory_;
    std::optional<MemoryBudget::Step> step_;
  };
  /// Stands where a user writes MemoryBudget.
  class Budget {
   public:
    explicit Budget(Run& run) : run_(run) {}
    [[nodiscard]] Step step() { return Step(run_); }

   private:
    Run& run_;
  };

  /// The budget is made here, after model, optimizer and data. What was `made` before it counts.
  Budget budget(const std::vector<torch::Tensor>& made);
  void loss(const torch::Tensor& loss) { trained_.losses.push_back(loss.item<double>()); }
  /// Parameters, their gradients and buffers.
  void keep(const std::string& name, const torch::nn::Module& model);
  void keep(const std::string& name, const torch::Tensor& tensor);

  Trained& trained() { return trained_; }

 private:
  Way way_;
  std::optional<MemoryBudget> budget_;
  Trained trained_;
};

struct Program {
  std::string name;
  std::function<void(Run&)> train;
  /// By how much the plain peak differs from run to run: batches that a loader's threads hold or do not hold yet.
  int64_t varying_bytes = 0;
};
inline std::ostream& operator<<(std::ostream& out, const Program& program) {
  return out << program.name;
}

void train_cnn(Run& run);
void train_gan(Run& run);
void train_gan_by_turns(Run& run);
void train_vae(Run& run);
void train_language_model(Run& run);
void train_bidirectional_lstm(Run& run);
void train_alexnet(Run& run);
void train_resnet(Run& run);
void train_captioning(Run& run);
void transfer_style(Run& run);
void transfer_style_by_lbfgs(Run& run);
void train_micro_batches(Run& run);
void train_after_evaluation(Run& run);

}  // namespace encore::test
