// What a ShardedOptimizer holds.
#pragma once

#include "dist/parallel.h"

#include <torch/optim/optimizer.h>

namespace encore {

struct ShardedOptimizer::Impl {
  std::shared_ptr<DataParallel::Impl> parallel;
  ShardOptions options;
  std::vector<int> owners;                                           // by bucket
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;  // by parameter; null: another rank's

  dist::Reduction& reduction() { return parallel->reduction; }
  const dist::Layout& layout() { return parallel->reduction.layout(); }
  int owner_of(const dist::Parameter& parameter) const { return owners[parameter.bucket]; }
  /// The state of the parameter's optimizer, which this rank owns, as LibTorch writes it; and back.
  std::string state_of(size_t parameter) const;
  void set_state(size_t parameter, const std::string& state);
  ~Impl() { parallel->reduction.shard({}, {}); }
};

}  // namespace encore
