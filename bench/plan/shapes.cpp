// The named networks, layer by layer.
#include <cmath>
#include <map>

#include "images.h"

namespace encore::plan::bench {
Graph vgg16(int64_t batch) {
  Images m{Net("vgg16"), batch};
  Image x = m.input(224, 3);
  for (const auto& [count, channels] :
       std::vector<std::pair<int, int64_t>>{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
    for (int k = 0; k < count; ++k) {
      x = m.relu(m.conv(x, 3, channels));
    }
    x = m.max_pool(x);
  }
  Value y = m.classify(x, 4096);
  y = m.net.by_output("relu", y);
  y = m.net.linear(y, batch * 4096, 2.0 * static_cast<double>(batch) * 4096 * 4096);
  y = m.net.by_output("relu", y);
  return m.net.finish(m.net.linear(y, batch * 1000, 2.0 * static_cast<double>(batch) * 4096 * 1000));
}

Graph resnet50(int64_t batch, int64_t side) {
  Images m{Net("resnet50"), batch};
  Image x = m.max_pool(m.relu(m.norm(m.conv(m.input(side, 3), 7, 64, 2))));
  for (const auto& [blocks, channels] : std::vector<std::pair<int, int64_t>>{{3, 64}, {4, 128}, {6, 256}, {3, 512}}) {
    for (int k = 0; k < blocks; ++k) {
      const int64_t stride = k == 0 && channels > 64 ? 2 : 1;
      Image y = m.relu(m.norm(m.conv(x, 1, channels)));
      y = m.relu(m.norm(m.conv(y, 3, channels, stride)));
      y = m.norm(m.conv(y, 1, 4 * channels));
      x = m.relu(m.add(y, k == 0 ? m.norm(m.conv(x, 1, 4 * channels, stride)) : x));
    }
  }
  return m.net.finish(m.classify(m.mean_pool(x, 1), 1000));
}

Graph mobilenet(int64_t batch) {
  Images m{Net("mobilenet"), batch};
  Image x = m.relu(m.norm(m.conv(m.input(224, 3), 3, 32, 2)));
  for (const auto& [channels, stride] : std::vector<std::pair<int64_t, int64_t>>{{64, 1},
                                                                                 {128, 2},
                                                                                 {128, 1},
                                                                                 {256, 2},
                                                                                 {256, 1},
                                                                                 {512, 2},
                                                                                 {512, 1},
                                                                                 {512, 1},
                                                                                 {512, 1},
                                                                                 {512, 1},
                                                                                 {512, 1},
                                                                                 {1024, 2},
                                                                                 {1024, 1}}) {
    x = m.relu(m.norm(m.conv(x, 3, x.channels, stride, x.channels)));
    x = m.relu(m.norm(m.conv(x, 1, channels)));
  }
  return m.net.finish(m.classify(m.mean_pool(x, 1), 1000));
}

Graph unet(int64_t batch) {
  Images m{Net("unet"), batch};
  const auto twice = [&](Image x, int64_t channels) {
    x = m.relu(m.norm(m.conv(x, 3, channels)));
    return m.relu(m.norm(m.conv(x, 3, channels)));
  };
  Image x = m.input(256, 3);
  std::vector<Image> skips;
  for (const int64_t channels : {64, 128, 256, 512}) {
    skips.push_back(twice(x, channels));
    x = m.max_pool(skips.back());
  }
  x = twice(x, 1024);
  for (const int64_t channels : {512, 256, 128, 64}) {
    x = m.concat({skips.back(), m.conv(m.upsample(x), 2, channels)});
    skips.pop_back();
    x = twice(x, channels);
  }
  return m.net.finish(m.conv(x, 1, 2).value);
}

Graph gpt(int64_t layers, int64_t width, int64_t heads, int64_t tokens, int64_t batch, bool dropout, int64_t words) {
  Net net("gpt");
  const int64_t rows = batch * tokens;
  const auto dense = [&](Value x, int64_t from, int64_t to) {
    return net.linear(x, rows * to, 2.0 * static_cast<double>(rows * from * to));
  };
  const auto thin = [&](Value x) { return dropout ? net.dropout(x) : x; };
  const double attention = 2.0 * static_cast<double>(rows * tokens * width);
  Value x = net.input(rows * width);
  x = thin(dense(x, 1, width));
  for (int64_t layer = 0; layer < layers; ++layer) {
    const Value h = net.by_input("norm", x, 3);
    const Value qkv = dense(h, width, 3 * width);
    const Value q = net.resize("slice", qkv, rows * width);
    const Value k = net.resize("slice", qkv, rows * width);
    const Value v = net.resize("slice", qkv, rows * width);
    const Value scores = net.matmul(q, k, batch * heads * tokens * tokens, attention);
    const Value weights = thin(net.by_output("softmax", scores, 3));
    const Value mixed = net.resize("merge", net.matmul(weights, v, rows * width, attention), rows * width);
    x = net.add(x, thin(dense(mixed, width, width)));
    const Value up = net.by_input("gelu", dense(net.by_input("norm", x, 3), width, 4 * width));
    x = net.add(x, thin(dense(up, 4 * width, width)));
  }
  return net.finish(dense(net.by_input("norm", x, 3), width, words));
}

Graph lstm(int64_t times, int64_t width, int64_t batch) {
  Net net("lstm");
  const int64_t size = batch * width;
  const auto dense = [&](Value x, int64_t from) {
    return net.linear(x, 4 * size, 2.0 * static_cast<double>(batch * from * 4 * width));
  };
  Value h = net.input(size);
  Value c = net.input(size);
  for (int64_t t = 0; t < times; ++t) {
    const Value gates = net.add(dense(net.input(size), width), dense(h, width));
    const auto gate = [&](const char* op) { return net.by_output(op, net.resize("slice", gates, size)); };
    const Value in = gate("sigmoid");
    const Value forget = gate("sigmoid");
    const Value out = gate("sigmoid");
    c = net.add(net.mul(forget, c), net.mul(in, gate("tanh")));
    h = net.mul(out, net.by_output("tanh", c));
  }
  return net.finish(net.linear(h, batch * 1000, 2.0 * static_cast<double>(size) * 1000));
}

Graph densenet121(int64_t batch) {
  Images m{Net("densenet121"), batch};
  constexpr int64_t kGrowth = 32;
  Image x = m.max_pool(m.relu(m.norm(m.conv(m.input(224, 3), 7, 64, 2))));
  int block = 0;
  for (const int layers : {6, 12, 24, 16}) {
    std::vector<Image> parts{x};
    for (int k = 0; k < layers; ++k) {
      Image y = parts.size() == 1 ? x : m.concat(parts);
      y = m.conv(m.relu(m.norm(y)), 1, 4 * kGrowth);
      parts.push_back(m.conv(m.relu(m.norm(y)), 3, kGrowth));
    }
    x = m.relu(m.norm(m.concat(parts)));
    if (++block < 4) {
      x = m.conv(x, 1, x.channels / 2);
      x = m.mean_pool(x, x.side / 2);
    }
  }
  return m.net.finish(m.classify(m.mean_pool(x, 1), 1000));
}

std::vector<Shape> real_shapes() {
  return {{"VGG-16", vgg16(64)},
          {"ResNet-50", resnet50(64)},
          {"MobileNet", mobilenet(64)},
          {"U-Net", unet(8)},
          {"GPT-12", gpt(12, 768, 12, 1024, 8)},
          {"LSTM-200", lstm(200, 1024, 64)},
          {"DenseNet-121", densenet121(64)}};
}

}  // namespace encore::plan::bench
