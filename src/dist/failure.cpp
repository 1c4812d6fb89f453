// Telling every rank the same about a failure of one.
#include "dist/failure.h"

namespace encore::dist {

std::vector<int64_t> Failure::numbers() const {
  return {static_cast<int64_t>(kind), figures.needed_bytes, figures.limit_bytes, figures.least_bytes,
          parameters_differ ? 1 : 0};
}

void judge(Channel& channel, const std::vector<std::vector<int64_t>>& rows, const Failure& mine,
           const std::string& collective) {
  const auto failed = std::find_if(rows.begin(), rows.end(), [](const auto& row) { return row[0] != 0; });
  if (failed == rows.end()) {
    return;
  }
  const auto rank = static_cast<int>(failed - rows.begin());
  std::string text = channel.text_from(rank, mine.text, collective);
  if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row[4] != 0; })) {
    text += "; some ranks have updated parameters: load a saved state, or give everybody one rank's by broadcast()";
  }
  if ((*failed)[0] == static_cast<int64_t>(FailureKind::kBudget)) {
    BudgetError::Figures figures;
    figures.needed_bytes = (*failed)[1];
    figures.limit_bytes = (*failed)[2];
    figures.least_bytes = (*failed)[3];
    throw RankBudgetError("budget: rank " + std::to_string(rank) + ": " + text, figures, rank);
  }
  throw RankError("dist: rank " + std::to_string(rank) + ": " + text, rank, collective);
}

}  // namespace encore::dist
