// Builds joint forward and backward graphs from layer shapes, with times and bytes computed from the shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <encore/plan/graph.h>

namespace encore::plan::bench {

/// What the machine does in a second. Times are the larger of arithmetic and memory traffic (single precision).
struct Machine {
  double flops = 14e12;
  double bytes = 900e9;
};

using Value = int32_t;

/// Forward operations are added one by one; finish() appends the backward of all, in reverse. Parameters and their
/// gradients live outside of the graph: a step that only makes a parameter's gradient leaves no bytes.
class Net {
 public:
  explicit Net(std::string name) : name_(std::move(name)) {}

  Value input(int64_t elements);
  /// Matrix product with parameters (convolutions too): backward reads the input for the weights' gradient.
  Value linear(Value x, int64_t out_elements, double flops);
  /// Product of two values: backward reads both.
  Value matmul(Value a, Value b, int64_t out_elements, double flops);
  /// Elementwise, backward reads the output (relu, sigmoid, tanh, softmax).
  Value by_output(const std::string& op, Value x, double passes = 2);
  /// Elementwise, backward reads the input (gelu, normalisations).
  Value by_input(const std::string& op, Value x, double passes = 2);
  /// Elementwise product: backward reads both.
  Value mul(Value a, Value b);
  Value add(Value a, Value b);
  /// Keeps a random mask of one byte an element.
  Value dropout(Value x);
  /// Changes the number of elements, backward reads input and output (max pooling).
  Value pool(Value x, int64_t out_elements);
  /// Changes the number of elements, backward reads nothing (mean pooling, upsampling, slices).
  Value resize(const std::string& op, Value x, int64_t out_elements);
  Value concat(const std::vector<Value>& parts);
  [[nodiscard]] int64_t elements(Value x) const { return steps_[x].elements; }

  /// The joint graph; `loss` is reduced to a number, and the gradient starts there. Inputs get no gradient.
  Graph finish(Value loss);

 private:
  struct Forward {
    std::string op;
    int64_t elements;
    int64_t bytes;
    double time;
    std::vector<Value> inputs;       // That get a gradient.
    std::vector<Value> reads;        // That each input's gradient reads, besides the gradient of the output.
    bool weights = false;            // Whether there is a gradient of parameters, which reads the input.
    bool constant = false;           // Needs no gradient.
    std::vector<Value> other_reads;  // Forward only (masks).
  };
  Value push(Forward forward);

  std::string name_;
  Machine machine_;
  std::vector<Forward> steps_;
};

struct Shape {
  std::string name;
  Graph graph;
};

/// VGG-16, ResNet-50, MobileNet, U-Net, GPT of 12 layers, LSTM of 200 time steps, DenseNet-121.
std::vector<Shape> real_shapes();
Graph vgg16(int64_t batch);
Graph resnet50(int64_t batch, int64_t side = 224);
Graph mobilenet(int64_t batch);
Graph unet(int64_t batch);
Graph gpt(int64_t layers, int64_t width, int64_t heads, int64_t tokens, int64_t batch, bool dropout = true,
          int64_t words = 4096);
Graph lstm(int64_t times, int64_t width, int64_t batch);
Graph densenet121(int64_t batch);

/// Networks that are not chains: DenseNet-121, Inception v4, an unrolled GAN, a tree LSTM, SegNet, random layers.
std::vector<Shape> wide_shapes();
Graph inception_v4(int64_t batch);
Graph segnet(int64_t batch);
Graph resnet18(int64_t batch, int64_t side);
Graph unrolled_gan(int64_t rounds, int64_t width, int64_t batch);
Graph tree_lstm(int32_t depth, int64_t width, int64_t batch);
Graph random_layered(int32_t steps, int32_t width, uint64_t seed);
/// So many steps of a graph from `first` on; what they read from before is outside. Nothing is an output.
Graph window(const Graph& graph, int32_t first, int32_t count);

}  // namespace encore::plan::bench
