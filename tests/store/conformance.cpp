// The suite.
#include "store/conformance.h"

#include <cstring>
#include <limits>
#include <thread>

#include <encore/memory.h>

namespace encore::store {
namespace {

const std::vector<torch::ScalarType>& every_dtype() {
  static const std::vector<torch::ScalarType> types = {
      torch::kBool, torch::kByte,  torch::kChar,   torch::kShort,    torch::kInt,          torch::kLong,
      torch::kHalf, torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kComplexFloat, torch::kComplexDouble};
  return types;
}

std::vector<char> bytes_of(const c10::Storage& storage) {
  const auto* data = static_cast<const char*>(storage.data());
  return std::vector<char>(data, data + storage.nbytes());
}

/// Random bytes; a bool has no others than 0 and 1.
torch::Tensor random_bits(torch::ScalarType dtype, int64_t size) {
  torch::Tensor tensor = torch::empty({size}, dtype);
  auto* bytes = static_cast<uint8_t*>(tensor.data_ptr());
  const auto nbytes = static_cast<int64_t>(tensor.nbytes());
  const torch::Tensor random = torch::randint(dtype == torch::kBool ? 2 : 256, {nbytes}, torch::kByte);
  std::memcpy(bytes, random.data_ptr(), tensor.nbytes());
  return tensor;
}

/// It comes back to the last bit, or it is said that it would not.
void expect_exact(const Form& form, const torch::Tensor& tensor, const std::string& what) {
  const std::vector<char> before = bytes_of(tensor.storage());
  const auto resting = form.rest(tensor);
  EXPECT_EQ(bytes_of(tensor.storage()), before) << what << ": resting changed the tensor";
  if (resting == nullptr) {
    return;
  }
  EXPECT_EQ(resting->form(), form.name()) << what;
  EXPECT_LT(resting->nbytes(), static_cast<int64_t>(before.size())) << what << ": no smaller than the whole";
  EXPECT_EQ(bytes_of(resting->whole()), before) << what;
}

}  // namespace

const Form& FormConformance::form() {
  for (const Form* form : forms()) {
    if (form->name() == GetParam().form) {
      return *form;
    }
  }
  throw std::logic_error("no form of the name " + GetParam().form);
}

TEST_P(FormConformance, HoldsWhatItServesInTheBytesItSays) {
  for (const Example::Served& served : GetParam().served()) {
    int64_t live_before = live_tensor_bytes();
    const auto resting = form().rest(served.tensor);
    ASSERT_NE(resting, nullptr) << served.name;
    EXPECT_EQ(resting->nbytes(), served.bytes) << served.name;
    EXPECT_LE(live_tensor_bytes() - live_before, served.bytes) << served.name << ": it holds more than it says";
    live_before = live_tensor_bytes();
    const c10::Storage whole = resting->whole();
    EXPECT_EQ(bytes_of(whole), bytes_of(served.tensor.storage())) << served.name;
    EXPECT_EQ(live_tensor_bytes() - live_before, static_cast<int64_t>(whole.nbytes())) << served.name;
  }
}

TEST_P(FormConformance, RefusesWhatItCantHold) {
  for (const torch::Tensor& tensor : GetParam().refused()) {
    EXPECT_EQ(form().rest(tensor), nullptr) << tensor.options() << tensor.sizes();
  }
}

TEST_P(FormConformance, RandomBitPatternsOfEveryTypeComeBackOrAreRefused) {
  torch::manual_seed(7);
  for (const torch::ScalarType dtype : every_dtype()) {
    for (const int64_t size : {1, 2, 7, 8, 9, 63, 64, 65, 1000, 300'000}) {
      expect_exact(form(), random_bits(dtype, size), std::string(c10::toString(dtype)) + std::to_string(size));
    }
  }
}

TEST_P(FormConformance, ConstantsOfEveryTypeComeBackOrAreRefused) {
  for (const torch::ScalarType dtype : every_dtype()) {
    for (const double number : {0.0, 1.0, 3.0}) {
      expect_exact(form(), torch::full({40, 50}, number, dtype), std::string(c10::toString(dtype)));
    }
  }
}

TEST_P(FormConformance, NansWithPayloadsAndNegativeZerosKeepTheirBits) {
  torch::Tensor tensor = torch::zeros({1000});
  auto* numbers = static_cast<uint32_t*>(tensor.data_ptr());
  numbers[3] = 0x7FC00123U;  // a NaN with a payload
  expect_exact(form(), tensor, "one NaN");
  numbers[5] = 0x7FC00124U;
  expect_exact(form(), tensor, "two NaNs");
  expect_exact(form(), torch::cat({torch::full({500}, -0.0), torch::full({500}, 0.0)}), "zeros of both signs");
}

TEST_P(FormConformance, WhatDoesNotFillItsStorageIsNeverTried) {
  for (const Example::Served& served : GetParam().served()) {
    const torch::Tensor& tensor = served.tensor;
    EXPECT_EQ(rest(tensor.flatten().narrow(0, 0, tensor.numel() - 1)), nullptr) << served.name;
    EXPECT_EQ(rest(tensor.flatten().as_strided({tensor.numel() / 2}, {2})), nullptr) << served.name;
    EXPECT_EQ(rest(tensor.unsqueeze(0).expand({3, -1, -1})), nullptr) << served.name;
  }
  EXPECT_EQ(rest(torch::empty({0})), nullptr);
}

TEST_P(FormConformance, AScalarComesBackOrIsRefused) {
  for (const torch::ScalarType dtype : every_dtype()) {
    expect_exact(form(), torch::ones({}, dtype), "a scalar");
  }
}

TEST_P(FormConformance, LayoutsThatFillTheStorageAreExact) {
  for (const Example::Served& served : GetParam().served()) {
    expect_exact(form(), served.tensor.t(), served.name + ", transposed");
  }
}

TEST_P(FormConformance, ServesSeveralThreadsAtOnce) {
  const std::vector<Example::Served> served = GetParam().served();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const Example::Served& one : served) {
        const auto resting = form().rest(one.tensor);
        EXPECT_EQ(bytes_of(resting->whole()), bytes_of(one.tensor.storage())) << one.name;
      }
    });
  }
  std::for_each(threads.begin(), threads.end(), [](std::thread& thread) { thread.join(); });
}

}  // namespace encore::store
