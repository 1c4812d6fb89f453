// What a failed step puts back on the ranks on which it did not fail.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "dist/layout.h"

namespace encore::dist {

/// The default generator and the model's buffers, as they were; outside of the tensors' allocator. Buffers of more than
/// kMostBytes together are left as they are.
class StepThen {
 public:
  static constexpr size_t kMostBytes = size_t{16} << 20;

  explicit StepThen(const std::vector<at::Tensor>& buffers);
  void put_back() noexcept;

 private:
  std::vector<char> generator_;
  struct Copy {
    at::Tensor tensor;
    std::vector<char> bytes;
  };
  std::vector<Copy> copies_;
};

}  // namespace encore::dist
