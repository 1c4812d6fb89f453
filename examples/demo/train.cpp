// The training loop: `budget.step()` is all that a budget asks of it.
#include "train.h"

#include <algorithm>
#include <cstdio>

#include <encore/bytes.h>
#include <encore/memory.h>

#include "progress.h"
#include "trainer.h"

namespace demo {
namespace {

std::string peak_text(const encore::StepReport& report) {
  const std::string peak = "peak " + encore::format_bytes(report.peak_bytes);
  // The first step of a budget in percent has no limit yet.
  return report.limit_bytes < 0 ? peak + " (plain, to learn)"
                                : peak + " of " + encore::format_bytes(report.limit_bytes);
}

}  // namespace

void train(const Subject& subject, int64_t steps, encore::MemoryBudget& budget) {
  Trainer trainer(subject);
  budget.name_modules_of(trainer.module());  // for the report
  double first_loss = 0;
  double loss = 0;
  int64_t most_bytes = 0;
  const auto start = Clock::now();
  {
    Progress progress;
    for (int64_t i = 0; i < steps; ++i) {
      {
        auto step = budget.step();
        loss = trainer.step(i);
        step.set_loss(loss);
      }
      const encore::StepReport report = budget.report();
      if (report.limit_bytes >= 0) {
        most_bytes = std::max(most_bytes, report.peak_bytes);
      }
      first_loss = i == 0 ? loss : first_loss;
      const double left = seconds_since(start) / static_cast<double>(i + 1) * static_cast<double>(steps - i - 1);
      char line[256];
      std::snprintf(line, sizeof line, "  step %lld/%lld  loss %.3f  live %s, %s  %.2f s a step  %s left",
                    static_cast<long long>(i + 1), static_cast<long long>(steps), loss,
                    encore::format_bytes(encore::live_tensor_bytes()).c_str(), peak_text(report).c_str(),
                    report.step_seconds, format_seconds(left).c_str());
      progress.show(line, i < 3 || i % 10 == 9 || i + 1 == steps);
    }
  }
  std::printf("  %lld steps in %s: loss %.3f -> %.3f, never above %s\n", static_cast<long long>(steps),
              format_seconds(seconds_since(start)).c_str(), first_loss, loss, encore::format_bytes(most_bytes).c_str());
}

}  // namespace demo
