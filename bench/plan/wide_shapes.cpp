// Networks that are not chains: dense, branching, recursive, unrolled, and random ones.
#include <algorithm>
#include <set>

#include "images.h"
#include "small_graphs.h"

namespace encore::plan::bench {
namespace {

Image cell(Images* m, Image x, int64_t kernel, int64_t channels, int64_t stride = 1) {
  return m->relu(m->norm(m->conv(x, kernel, channels, stride)));
}

/// Convolutions of 1 x k and k x 1 have k times the work of one element.
Image narrow(Images* m, Image x, int64_t kernel, int64_t channels) {
  const int64_t out = m->batch * x.side * x.side * channels;
  const double flops = 2.0 * static_cast<double>(out * kernel * x.channels);
  return m->relu(m->norm({m->net.linear(x.value, out, flops), x.side, channels}));
}

Image inception_stem(Images* m, Image x) {
  x = cell(m, cell(m, cell(m, x, 3, 32, 2), 3, 32), 3, 64);
  x = m->concat({m->max_pool(x), cell(m, x, 3, 96, 2)});
  x = m->concat(
      {cell(m, cell(m, x, 1, 64), 3, 96), cell(m, narrow(m, narrow(m, cell(m, x, 1, 64), 7, 64), 7, 64), 3, 96)});
  return m->concat({cell(m, x, 3, 192, 2), m->max_pool(x)});
}

Image inception_a(Images* m, Image x) {
  return m->concat({cell(m, m->mean_pool(x, x.side), 1, 96), cell(m, x, 1, 96), cell(m, cell(m, x, 1, 64), 3, 96),
                    cell(m, cell(m, cell(m, x, 1, 64), 3, 96), 3, 96)});
}

Image inception_b(Images* m, Image x) {
  return m->concat({cell(m, m->mean_pool(x, x.side), 1, 128), cell(m, x, 1, 384),
                    narrow(m, narrow(m, cell(m, x, 1, 192), 7, 224), 7, 256),
                    narrow(m, narrow(m, narrow(m, narrow(m, cell(m, x, 1, 192), 7, 192), 7, 224), 7, 224), 7, 256)});
}

Image inception_c(Images* m, Image x) {
  const Image two = cell(m, x, 1, 384);
  const Image three = narrow(m, narrow(m, cell(m, x, 1, 384), 3, 448), 3, 512);
  return m->concat({cell(m, m->mean_pool(x, x.side), 1, 256), cell(m, x, 1, 256), narrow(m, two, 3, 256),
                    narrow(m, two, 3, 256), narrow(m, three, 3, 256), narrow(m, three, 3, 256)});
}

}  // namespace

Graph inception_v4(int64_t batch) {
  Images m{Net("inception4"), batch};
  Image x = inception_stem(&m, m.input(304, 3));
  for (int k = 0; k < 4; ++k) {
    x = inception_a(&m, x);
  }
  x = m.concat({m.max_pool(x), cell(&m, x, 3, 384, 2), cell(&m, cell(&m, cell(&m, x, 1, 192), 3, 224), 3, 256, 2)});
  for (int k = 0; k < 7; ++k) {
    x = inception_b(&m, x);
  }
  x = m.concat({m.max_pool(x), cell(&m, cell(&m, x, 1, 192), 3, 192, 2),
                cell(&m, narrow(&m, narrow(&m, cell(&m, x, 1, 256), 7, 256), 7, 320), 3, 320, 2)});
  for (int k = 0; k < 3; ++k) {
    x = inception_c(&m, x);
  }
  return m.net.finish(m.classify(m.mean_pool(x, 1), 1000));
}

Graph segnet(int64_t batch) {
  Images m{Net("segnet"), batch};
  Image x = m.input(256, 3);
  const std::vector<std::pair<int, int64_t>> groups{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  std::vector<Image> before;  // Each pooling, whose places the decoder reads again.
  for (const auto& [count, channels] : groups) {
    for (int k = 0; k < count; ++k) {
      x = cell(&m, x, 3, channels);
    }
    before.push_back(x);
    x = m.max_pool(x);
  }
  for (size_t g = groups.size(); g-- > 0;) {
    Image wide = m.upsample(x);
    x = {m.net.mul(wide.value, before[g].value), wide.side, wide.channels};
    const auto [count, channels] = groups[g];
    for (int k = 0; k < count; ++k) {
      x = cell(&m, x, 3, k + 1 == count && g > 0 ? groups[g - 1].second : channels);
    }
  }
  return m.net.finish(m.conv(x, 3, 12).value);
}

Graph resnet18(int64_t batch, int64_t side) {
  Images m{Net("resnet18"), batch};
  Image x = m.max_pool(m.relu(m.norm(m.conv(m.input(side, 3), 7, 64, 2))));
  for (const int64_t channels : {64, 128, 256, 512}) {
    for (int k = 0; k < 2; ++k) {
      const int64_t stride = k == 0 && channels > 64 ? 2 : 1;
      const Image y = m.norm(m.conv(m.relu(m.norm(m.conv(x, 3, channels, stride))), 3, channels));
      x = m.relu(m.add(y, stride == 2 ? m.norm(m.conv(x, 1, channels, 2)) : x));
    }
  }
  return m.net.finish(m.classify(m.mean_pool(x, 1), 1000));
}

// A generator that is trained through several steps of its opponent's training: the opponent's weights are values, and
// so are their gradients, through which backward goes again.
Graph unrolled_gan(int64_t rounds, int64_t width, int64_t batch) {
  Net net("gan");
  const int64_t rows = batch * width;
  const int64_t square = width * width;
  const double flops = 2.0 * static_cast<double>(batch * square);
  const auto product = [&](Value a, Value b, int64_t out) { return net.matmul(a, b, out, flops); };
  Value fake = net.input(rows);
  for (int k = 0; k < 4; ++k) {
    fake = net.by_output("relu", net.linear(fake, rows, flops));
  }
  constexpr int kLayers = 3;
  std::vector<Value> weights;
  for (int k = 0; k < kLayers; ++k) {
    weights.push_back(net.linear(net.input(square), square, 0));
  }
  const Value real = net.input(rows);
  const auto forward = [&](Value x, std::vector<Value>* kept) {
    for (const Value weight : weights) {
      kept->push_back(x);
      x = net.by_output("tanh", product(x, weight, rows));
    }
    return x;
  };
  for (int64_t round = 0; round < rounds; ++round) {
    std::vector<Value> gradients(kLayers, -1);
    for (const Value data : {real, fake}) {
      std::vector<Value> kept;
      Value gradient = net.by_output("loss", forward(data, &kept));
      for (int k = kLayers - 1; k >= 0; --k) {
        const Value part = product(kept[k], gradient, square);
        gradients[k] = gradients[k] < 0 ? part : net.add(gradients[k], part);
        gradient = net.mul(product(gradient, weights[k], rows), kept[k]);
      }
    }
    for (int k = 0; k < kLayers; ++k) {
      weights[k] = net.add(weights[k], gradients[k]);
    }
  }
  std::vector<Value> kept;
  return net.finish(forward(fake, &kept));
}

// A complete binary tree, children before their parent.
Graph tree_lstm(int32_t depth, int64_t width, int64_t batch) {
  Net net("tree");
  const int64_t size = batch * width;
  const double flops = 2.0 * static_cast<double>(size * width);
  struct Node {
    Value h, c;
  };
  const auto gate = [&](const char* op, Value a, Value b) {
    return net.by_output(op, net.add(net.linear(a, size, flops), net.linear(b, size, flops)));
  };
  const auto grow = [&](const auto& self, int32_t level) -> Node {
    if (level == 0) {
      const Value x = net.input(size);
      const Value c = net.by_output("tanh", net.linear(x, size, flops));
      return {net.mul(net.by_output("sigmoid", net.linear(x, size, flops)), net.by_output("tanh", c)), c};
    }
    const Node a = self(self, level - 1);
    const Node b = self(self, level - 1);
    const Value in = net.mul(gate("sigmoid", a.h, b.h), gate("tanh", a.h, b.h));
    const Value left = net.mul(gate("sigmoid", a.h, b.h), a.c);
    const Value right = net.mul(gate("sigmoid", a.h, b.h), b.c);
    const Value c = net.add(in, net.add(left, right));
    return {net.mul(gate("sigmoid", a.h, b.h), net.by_output("tanh", c)), c};
  };
  return net.finish(grow(grow, depth).h);
}

// Layers of up to `width` steps that read a few of the layer before and now and then something older.
Graph random_layered(int32_t steps, int32_t width, uint64_t seed) {
  Dice dice(seed * 7919 + static_cast<uint64_t>(steps));
  std::vector<Step> forward;
  std::vector<int32_t> last;
  while (static_cast<int32_t>(forward.size()) < steps / 2) {
    const int32_t count = std::min(dice.roll(1, width), steps / 2 - static_cast<int32_t>(forward.size()));
    std::vector<int32_t> now;
    for (int32_t k = 0; k < count; ++k) {
      const auto at = static_cast<int32_t>(forward.size());
      std::set<int32_t> reads;
      for (int32_t r = last.empty() ? 0 : dice.roll(1, 2); r > 0; --r) {
        reads.insert(last[static_cast<size_t>(dice.roll(0, static_cast<int32_t>(last.size()) - 1))]);
      }
      if (!last.empty() && dice.roll(0, 9) == 0) {
        reads.insert(dice.roll(0, last.front()));
      }
      forward.push_back({"f" + std::to_string(at),
                         static_cast<double>(dice.roll(1, 30)),
                         dice.roll(10, 200),
                         dice.roll(0, 30),
                         {reads.begin(), reads.end()},
                         {}});
      now.push_back(at);
    }
    last = now;
  }
  return with_backward(std::move(forward), &dice);
}

Graph window(const Graph& graph, int32_t first, int32_t count) {
  Graph part;
  std::vector<int32_t> place(graph.steps.size(), -1);
  for (int32_t i = first; i < first + count; ++i) {
    Step step = graph.steps[static_cast<size_t>(i)];
    std::vector<int32_t> inputs;
    for (const int32_t input : step.inputs) {
      if (place[static_cast<size_t>(input)] >= 0) {
        inputs.push_back(place[static_cast<size_t>(input)]);
      }
    }
    step.inputs = std::move(inputs);
    place[static_cast<size_t>(i)] = static_cast<int32_t>(part.steps.size());
    part.steps.push_back(std::move(step));
  }
  return part;
}

std::vector<Shape> wide_shapes() {
  return {{"DenseNet-121", densenet121(16)},
          {"Inception v4", inception_v4(16)},
          {"unrolled GAN", unrolled_gan(8, 512, 512)},
          {"tree LSTM", tree_lstm(5, 256, 64)},
          {"SegNet", segnet(8)},
          {"layered 100", random_layered(100, 5, 1)},
          {"layered 250", random_layered(250, 6, 2)},
          {"layered 500", random_layered(500, 8, 3)},
          {"layered 1000", random_layered(1000, 8, 4)},
          {"layered 2000", random_layered(2000, 10, 5)}};
}

}  // namespace encore::plan::bench
