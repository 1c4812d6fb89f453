// What every resting form must do, whatever it is: run on a form by one short file.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <torch/torch.h>

#include "store/form.h"

namespace encore::store {

/// A form, and tensors to try it on.
struct Example {
  std::string form;
  /// Tensors that it must be able to hold, filling their storages, with the bytes that it may take for each.
  struct Served {
    std::string name;
    torch::Tensor tensor;
    int64_t bytes;
  };
  std::vector<Served> (*served)();
  /// Tensors that fill their storages, and that it must not pretend to hold.
  std::vector<torch::Tensor> (*refused)();
};

class FormConformance : public testing::TestWithParam<Example> {
 public:
  static const Form& form();
};

}  // namespace encore::store
