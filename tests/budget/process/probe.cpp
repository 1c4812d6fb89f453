// Trains a transformer encoder of 6 layers, plainly or within a budget, and prints for each step what its tensors took
// and how large the process was.
// Usage: probe ragged|large STEPS plain|BYTES|PERCENT%
#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

#include <torch/torch.h>

#include <encore/encore.h>

namespace {

/// Of what the system calls "VmRSS:" (all that is resident), "VmHWM:" (the most of it since reset_peak()), ...
int64_t process_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == field) {
      int64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  throw std::runtime_error("no " + field + " in /proc/self/status");
}

void reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  if (!(clear << 5 << std::flush)) {
    throw std::runtime_error("/proc/self/clear_refs can't be written");
  }
}

struct Shape {
  int64_t width, inner, tokens, batch;
};

Shape shape_of(const std::string& size, int64_t step) {
  if (size == "large") {
    return {128, 256, 128, 32};
  }
  return {64, 128, 64 - 8 * (step % 5), 4};
}

torch::nn::TransformerEncoder make_model(const Shape& shape, int64_t layers) {
  torch::manual_seed(1);
  const auto layer =
      torch::nn::TransformerEncoderLayerOptions(shape.width, 8).dim_feedforward(shape.inner).dropout(0.1);
  return torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(layer, layers));
}

void train(torch::nn::TransformerEncoder& model, torch::optim::Adam& adam, const Shape& shape) {
  const torch::Tensor input = torch::randn({shape.tokens, shape.batch, shape.width});
  adam.zero_grad();
  model->forward(input).square().mean().backward();
  adam.step();
}

/// BLAS, oneDNN and thread pools take what they keep for ever.
void warm_up(const Shape& shape) {
  torch::nn::TransformerEncoder model = make_model(shape, 1);
  torch::optim::Adam adam(model->parameters());
  train(model, adam, {shape.width, shape.inner, shape.tokens, 1});
}

void run(const std::string& size, int64_t steps, const std::string& way) {
  warm_up(shape_of(size, 0));
  reset_peak();
  std::cout << "base now " << process_bytes("VmRSS:") << " anonymous " << process_bytes("RssAnon:") << " address "
            << process_bytes("VmPeak:") << "\n";

  torch::nn::TransformerEncoder model = make_model(shape_of(size, 0), 6);
  torch::optim::Adam adam(model->parameters());
  std::optional<encore::MemoryBudget> budget;
  if (way != "plain") {
    budget = way.back() == '%' ? encore::MemoryBudget::fraction(std::stod(way) / 100) : encore::MemoryBudget(way);
  }
  for (int64_t i = 0; i < steps; ++i) {
    const encore::MemoryScope memory;
    {
      std::optional<encore::MemoryBudget::Step> step;
      if (budget) {
        step.emplace(budget->step());
      }
      reset_peak();
      train(model, adam, shape_of(size, i));
    }
    std::cout << "step tensors " << memory.peak_bytes() << " limit "
              << (budget ? budget->report().limit_bytes : int64_t{-1}) << " most " << process_bytes("VmHWM:") << " now "
              << process_bytes("VmRSS:") << "\n";
  }
  std::cout << "trained" << std::hexfloat;
  for (const torch::Tensor& parameter : model->parameters()) {
    std::cout << " " << parameter.grad().sum().item<float>() << " " << parameter.sum().item<float>();
  }
  std::cout << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      throw std::invalid_argument("usage: probe ragged|large STEPS plain|BYTES|PERCENT%");
    }
    run(argv[1], std::stoll(argv[2]), argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
