// How tensors lie in their storages.
#include <torch/torch.h>

#include <gtest/gtest.h>

#include "tape/geometry.h"

namespace encore::tape {
namespace {

int64_t storage_bytes(const at::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().nbytes());
}

bool covers(const at::Tensor& tensor) {
  return Geometry::of(tensor).covers(storage_bytes(tensor));
}

TEST(Geometry, CoversAStorageIfEachByteIsThereOnce) {
  const at::Tensor whole = torch::rand({4, 6});
  EXPECT_TRUE(covers(whole));
  EXPECT_TRUE(covers(whole.t()));
  EXPECT_TRUE(covers(whole.unsqueeze(1)));
  EXPECT_FALSE(covers(whole.narrow(0, 0, 3)));
  EXPECT_FALSE(covers(whole.slice(1, 0, 6, 2)));
  EXPECT_FALSE(covers(torch::rand({4, 1}).expand({4, 6})));
  EXPECT_FALSE(covers(whole.as_strided({4, 6}, {3, 1})));
}

/// The elements' places, one by one: what is_apart_from decides without looking at each.
bool share_an_element(const at::Tensor& a, const at::Tensor& b) {
  const auto touched = [](const at::Tensor& tensor, const at::Tensor& base) {
    const at::Tensor marks = torch::zeros_like(base);
    marks.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()).fill_(1);
    return marks;
  };
  const at::Tensor base = torch::zeros({static_cast<int64_t>(a.storage().nbytes() / a.element_size())});
  return (touched(a, base) * touched(b, base)).sum().item<float>() > 0;
}

TEST(Geometry, IsApartOnlyFromWhatSharesNoElement) {
  torch::manual_seed(5);
  const at::Tensor base = torch::rand({12, 10});
  int apart = 0;
  for (int i = 0; i < 500; ++i) {
    const auto some_view = [&] {
      const auto pick = [](int64_t below) { return torch::randint(below, {1}).item<int64_t>(); };
      const int64_t dim = pick(2);
      const int64_t start = pick(base.size(dim));
      const int64_t step = 1 + pick(3);
      return base.slice(dim, start, start + 1 + pick(base.size(dim) - start), step);
    };
    const at::Tensor a = some_view();
    const at::Tensor b = some_view();
    if (Geometry::of(a).is_apart_from(Geometry::of(b))) {
      ++apart;
      EXPECT_FALSE(share_an_element(a, b)) << a.sizes() << a.storage_offset() << b.sizes() << b.storage_offset();
    }
  }
  EXPECT_GT(apart, 20);
}

TEST(Geometry, ThoseOfGatesInOneStorageAreApart) {
  const at::Tensor gates = torch::rand({5, 8});
  const auto quarters = gates.chunk(4, 1);
  for (size_t i = 0; i < quarters.size(); ++i) {
    for (size_t j = 0; j < quarters.size(); ++j) {
      EXPECT_EQ(Geometry::of(quarters[i]).is_apart_from(Geometry::of(quarters[j])), i != j);
    }
  }
}

TEST(Geometries, AreEachThereOnce) {
  Geometries geometries;
  const at::Tensor x = torch::rand({3, 4});
  const Geometry* same = geometries.of(x);
  EXPECT_EQ(geometries.of(torch::rand({3, 4})), same);
  const std::vector<at::Tensor> others = {x.t(), x.narrow(0, 1, 2), x.to(torch::kDouble), x.to(torch::kInt),
                                          torch::view_as_complex(torch::rand({3, 4, 2})).conj()};
  for (const at::Tensor& other : others) {
    EXPECT_NE(geometries.of(other), same) << other.options();
    EXPECT_EQ(*geometries.of(other), Geometry::of(other));
  }
  at::Tensor number = torch::rand({});
  const Geometry* scalar = geometries.of(number);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_NE(geometries.of(number), scalar) << "numbers take part in type promotion otherwise";
}

}  // namespace
}  // namespace encore::tape
