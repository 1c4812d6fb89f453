// Layers of image networks, for the builder of joint graphs.
#pragma once

#include <string>
#include <vector>

#include "net.h"

namespace encore::plan::bench {

// An image batch: a value and its height (= width) and channels.
struct Image {
  Value value;
  int64_t side;
  int64_t channels;
};

struct Images {
  Net net;
  int64_t batch;

  Image input(int64_t side, int64_t channels) { return {net.input(batch * side * side * channels), side, channels}; }
  Image conv(Image x, int64_t kernel, int64_t channels, int64_t stride = 1, int64_t groups = 1) {
    const int64_t side = (x.side + stride - 1) / stride;
    const int64_t out = batch * side * side * channels;
    const double flops = 2.0 * static_cast<double>(out * kernel * kernel * x.channels / groups);
    return {net.linear(x.value, out, flops), side, channels};
  }
  Image norm(Image x) { return {net.by_input("norm", x.value, 3), x.side, x.channels}; }
  Image relu(Image x) { return {net.by_output("relu", x.value), x.side, x.channels}; }
  Image add(Image a, Image b) { return {net.add(a.value, b.value), a.side, a.channels}; }
  Image max_pool(Image x) {
    const int64_t side = x.side / 2;
    return {net.pool(x.value, batch * side * side * x.channels), side, x.channels};
  }
  Image mean_pool(Image x, int64_t side) {
    return {net.resize("mean", x.value, batch * side * side * x.channels), side, x.channels};
  }
  Image upsample(Image x) {
    return {net.resize("upsample", x.value, batch * 4 * x.side * x.side * x.channels), 2 * x.side, x.channels};
  }
  Image concat(const std::vector<Image>& parts) {
    std::vector<Value> values;
    int64_t channels = 0;
    for (const Image& part : parts) {
      values.push_back(part.value);
      channels += part.channels;
    }
    return {net.concat(values), parts[0].side, channels};
  }
  Value classify(Image x, int64_t classes) {
    const int64_t features = x.side * x.side * x.channels;
    return net.linear(x.value, batch * classes, 2.0 * static_cast<double>(batch * features * classes));
  }
};

}  // namespace encore::plan::bench
