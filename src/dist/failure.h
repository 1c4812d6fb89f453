// A failure of one rank, as every rank learns of it.
#pragma once

#include "dist/channel.h"

namespace encore::dist {

enum class FailureKind : int64_t { kNone = 0, kBudget = 1, kThrew = 2 };

struct Failure {
  FailureKind kind = FailureKind::kNone;
  BudgetError::Figures figures;  // of kBudget
  std::string text;
  bool parameters_differ = false;  // some rank has updated its parameters

  static constexpr size_t kNumbers = 5;
  std::vector<int64_t> numbers() const;
};

/// `rows`: each rank's numbers. Returns if nobody failed; else all ranks must call it, and all throw the exception of
/// the first that did, as RankBudgetError or RankError.
void judge(Channel& channel, const std::vector<std::vector<int64_t>>& rows, const Failure& mine,
           const std::string& collective);

}  // namespace encore::dist
