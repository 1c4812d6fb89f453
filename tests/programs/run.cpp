// What surrounds a program: its budget, the measurement of its steps, and what it leaves behind.
#include "programs/programs.h"

namespace encore::test {

std::ostream& operator<<(std::ostream& out, const Way& way) {
  if (way.plain()) {
    return out << "plain";
  }
  return way.bytes > 0 ? out << way.bytes << " bytes" : out << "fraction(" << way.part << ")";
}

Run::Step::Step(Run& run) : run_(run), number_(run.trained_.steps++) {
  if (run_.budget_) {
    step_.emplace(run_.budget_->step());
    limit_bytes_ = run_.budget_->limit_bytes();
  }
}

Run::Step::~Step() {
  step_.reset();
  const int64_t peak_bytes = memory_.peak_bytes();
  run_.trained_.peak_bytes = std::max(run_.trained_.peak_bytes, peak_bytes);
  if (!run_.budget_) {
    return;
  }
  run_.trained_.limit_bytes = std::max(run_.trained_.limit_bytes, limit_bytes_);
  const StepReport report = run_.budget_->report();
  if (report.mode != StepMode::kLearning) {
    EXPECT_GE(limit_bytes_, 0) << "step " << number_ << " has no limit and learns none";
    EXPECT_LE(peak_bytes, limit_bytes_) << "step " << number_;
  }
}

Run::Budget Run::budget(const std::vector<torch::Tensor>& made) {
  if (way_.bytes > 0) {
    budget_.emplace(way_.bytes);
  } else if (way_.part > 0) {
    budget_.emplace(MemoryBudget::fraction(way_.part));
  }
  int64_t made_bytes = 0;
  for (const torch::Tensor& tensor : made) {
    made_bytes += static_cast<int64_t>(tensor.nbytes());
  }
  EXPECT_GE(live_tensor_bytes(), made_bytes) << "what was made before the budget counts";
  return Budget(*this);
}

void Run::keep(const std::string& name, const torch::Tensor& tensor) {
  std::string& bytes = trained_.tensors[name];
  if (!tensor.defined()) {
    return;
  }
  bytes = std::string(c10::toString(tensor.scalar_type())) + " " + c10::str(tensor.sizes()) + " ";
  const torch::Tensor whole = tensor.detach().contiguous();
  bytes.append(static_cast<const char*>(whole.data_ptr()), whole.nbytes());
}

void Run::keep(const std::string& name, const torch::nn::Module& model) {
  for (const auto& parameter : model.named_parameters()) {
    keep(name + "." + parameter.key(), parameter.value());
    keep(name + "." + parameter.key() + "'s gradient", parameter.value().grad());
  }
  for (const auto& buffer : model.named_buffers()) {
    keep(name + "." + buffer.key(), buffer.value());
  }
}

}  // namespace encore::test
