// c10d's own Reducer, driven as Python's DistributedDataParallel drives it.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <encore/dist.h>

/// Reduces with the given buckets (indices into `parameters`); looks for unused parameters.
class ReducerOracle {
 public:
  ReducerOracle(const std::vector<at::Tensor>& parameters, const std::vector<std::vector<size_t>>& buckets,
                const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  ~ReducerOracle();
  void before_backward(const at::Tensor& loss);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
