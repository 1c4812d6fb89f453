// What shows of a change of bytes.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/fingerprint.h"

namespace encore::tape {
namespace {

TEST(Imprint, ShowsAChangeToWhoReadsThatPart) {
  const at::Tensor bytes = torch::zeros({8, 4096});
  const Imprint imprint(bytes.storage());
  EXPECT_TRUE(imprint.is_of(bytes.storage()));
  bytes.data_ptr<float>()[3 * 4096 + 5] = 1;
  EXPECT_FALSE(imprint.is_of(bytes.storage()));
  for (int64_t row = 0; row < 8; ++row) {
    EXPECT_EQ(imprint.is_of(bytes.storage(), Geometry::of(bytes[row])), row != 3) << row;
  }
  EXPECT_FALSE(imprint.is_of(bytes.storage(), Geometry::of(bytes.t())));
  EXPECT_FALSE(imprint.is_of(bytes.storage(), Geometry::of(bytes.slice(1, 0, 4096, 1024))));
}

TEST(Imprint, IsOfTheLastBytesToo) {
  const at::Tensor bytes = torch::zeros({4096 + 3}, torch::kByte);
  const Imprint imprint(bytes.storage());
  bytes.data_ptr<uint8_t>()[4096 + 2] = 1;
  EXPECT_FALSE(imprint.is_of(bytes.storage()));
  EXPECT_TRUE(imprint.is_of(bytes.storage(), Geometry::of(bytes.slice(0, 0, 4096))));
  EXPECT_TRUE(imprint.is_of(bytes.storage(), Geometry::of(bytes.slice(0, 5, 5)))) << "nothing is read";
}

TEST(Imprint, ShowsAStorageOfAnotherSize) {
  const at::Tensor bytes = torch::zeros({64});
  const Imprint imprint(bytes.storage());
  bytes.resize_({128});
  EXPECT_FALSE(imprint.is_of(bytes.storage()));
  EXPECT_TRUE(Imprint(torch::empty({0}).storage()).is_of(torch::empty({0}).storage()));
}

}  // namespace
}  // namespace encore::tape
