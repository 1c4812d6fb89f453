// What a DataParallel holds.
#pragma once

#include "dist/reduction.h"

namespace encore {

struct DataParallel::Impl {
  Impl(dist::Layout layout, std::shared_ptr<RankGroup::Impl> of, const DataParallelOptions& options)
      : group(of), reduction(std::move(layout), std::move(of), options) {}

  std::shared_ptr<RankGroup::Impl> group;
  dist::Reduction reduction;
  bool step_is_open = false;
  RankRow row;
};

}  // namespace encore
