// Workloads whose steps change.
#include "workloads/changing.h"

#include <random>
#include <stdexcept>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/rnn.h>

#include "workloads/gpt.h"
#include "workloads/lstm.h"
#include "workloads/resnet.h"
#include "workloads/tree.h"

namespace workloads {
namespace {

/// What a step draws its shape and its data from.
class Draw {
 public:
  Draw(uint64_t seed, int64_t step) : random_(seed * 1000003 + static_cast<uint64_t>(step)) {
    random_.discard(8);
    generator_ = at::detail::createCPUGenerator(random_());
  }
  /// From `least` to `most`. The distributions of <random> differ between standard libraries.
  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  torch::Tensor noise(at::IntArrayRef sizes) { return torch::randn(sizes, generator_); }
  torch::Tensor ids(int64_t most, at::IntArrayRef sizes) {
    return torch::randint(most, sizes, generator_, torch::kLong);
  }
  uint64_t seed() { return random_(); }

 private:
  std::mt19937_64 random_;
  at::Generator generator_;
};

/// `loss(model, draw, step)` is that of one step.
template <class Model, class Loss>
Workload assemble(std::string_view name, Model model, uint64_t seed, const Loss& loss) {
  Workload workload;
  workload.name = name;
  workload.module = model.ptr();
  workload.parameters = model->parameters();
  workload.buffers = model->buffers();
  workload.loss = [model, seed, loss](int64_t step) mutable {
    Draw draw(seed, step);
    torch::manual_seed(draw.seed());
    return loss(model, draw, step);
  };
  return workload;
}

GptConfig gpt_config(Size size) {
  return size == Size::kSmall ? GptConfig{2, 32, 2, 32, 2, 32, 0.1} : GptConfig{4, 128, 4, 192, 4, 96, 0.1};
}

Workload make_lengths(std::string_view name, Size size, uint64_t seed) {
  const GptConfig config = gpt_config(size);
  return assemble(name, Gpt(config), seed, [config](Gpt& model, Draw& draw, int64_t) {
    const int64_t tokens = draw.number(config.tokens / 6, config.tokens);
    return model->forward(draw.ids(config.vocabulary, {config.batch, tokens}),
                          draw.ids(config.vocabulary, {config.batch, tokens}));
  });
}

/// Sequences one after another in one row. What keeps them apart is a mask of the step's own.
Workload make_packed(std::string_view name, Size size, uint64_t seed) {
  GptConfig config = gpt_config(size);
  config.tokens *= 2;
  return assemble(name, Gpt(config), seed, [config](Gpt& model, Draw& draw, int64_t) {
    const int64_t tokens = draw.number(config.tokens / 2, config.tokens);
    torch::Tensor number_of = torch::empty({tokens}, torch::kLong);  // of a token's sequence
    for (int64_t first = 0, sequence = 0; first < tokens; ++sequence) {
      const int64_t count = std::min(tokens - first, draw.number(config.tokens / 12, config.tokens / 3));
      number_of.narrow(0, first, count).fill_(sequence);
      first += count;
    }
    const torch::Tensor apart = number_of.unsqueeze(0).ne(number_of.unsqueeze(1));
    const torch::Tensor later = torch::ones({tokens, tokens}, torch::kBool).triu(1);
    for (Block& block : model->blocks) {
      block->mask = later.logical_or(apart);
    }
    return model->forward(draw.ids(config.vocabulary, {1, tokens}), draw.ids(config.vocabulary, {1, tokens}));
  });
}

Workload make_lstm_lengths(std::string_view name, Size size, uint64_t seed) {
  const LstmConfig config = size == Size::kSmall ? LstmConfig{20, 1, 16, 2, 16} : LstmConfig{120, 1, 128, 16, 64};
  return assemble(name, Lstm(config), seed, [config](Lstm& model, Draw& draw, int64_t) {
    const int64_t steps = draw.number(config.steps / 4, config.steps);
    return model->forward(draw.ids(config.vocabulary, {steps, config.batch}),
                          draw.ids(config.vocabulary, {steps, config.batch}));
  });
}

struct GruNetImpl : torch::nn::Module {
  GruNetImpl(int64_t inputs, int64_t hidden) : cell(inputs, hidden), head(hidden, 1) {
    register_module("cell", cell);
    register_module("head", head);
  }
  torch::nn::GRUCell cell;
  torch::nn::Linear head;
};
TORCH_MODULE(GruNet);

Workload make_gru_lengths(std::string_view name, Size size, uint64_t seed) {
  const int64_t hidden = size == Size::kSmall ? 16 : 128;
  const int64_t longest = size == Size::kSmall ? 20 : 200;
  const int64_t batch = size == Size::kSmall ? 4 : 32;
  return assemble(name, GruNet(hidden, hidden), seed, [=](GruNet& model, Draw& draw, int64_t) {
    const int64_t steps = draw.number(longest / 5, longest - 1);
    const torch::Tensor inputs = draw.noise({steps, batch, hidden});
    torch::Tensor state = torch::zeros({batch, hidden});
    for (int64_t i = 0; i < steps; ++i) {
      state = model->cell(inputs[i], state);
    }
    return model->head(state).square().mean();
  });
}

Workload make_trees(std::string_view name, Size size, uint64_t seed) {
  const TreeConfig config = size == Size::kSmall ? TreeConfig{16, 8, 2, 16, 3} : TreeConfig{79, 128, 16, 100, 5};
  return assemble(name, TreeNet(config), seed, [config](TreeNet& model, Draw& draw, int64_t) {
    return model->forward(draw.ids(config.vocabulary, {config.leaves, config.batch}),
                          draw.ids(config.classes, {config.batch}), make_tree(config, draw.seed()));
  });
}

struct GraphNetImpl : torch::nn::Module {
  GraphNetImpl(int64_t width, int64_t count) : into(width, width), out(width, 1) {
    register_module("into", into);
    register_module("out", out);
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(2 * width, width)));
    }
  }
  /// A node hears the sum of its neighbours.
  torch::Tensor forward(const torch::Tensor& nodes, const torch::Tensor& from, const torch::Tensor& to) {
    torch::Tensor x = into(nodes).relu();
    for (torch::nn::Linear& layer : layers) {
      const torch::Tensor heard = torch::zeros_like(x).index_add(0, to, x.index_select(0, from));
      x = x + layer(torch::cat({x, heard}, 1)).relu();
    }
    return out(x).square().mean();
  }
  torch::nn::Linear into, out;
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(GraphNet);

Workload make_graphs(std::string_view name, Size size, uint64_t seed) {
  const int64_t width = size == Size::kSmall ? 16 : 128;
  const int64_t most = size == Size::kSmall ? 40 : 1000;
  return assemble(name, GraphNet(width, 6), seed, [=](GraphNet& model, Draw& draw, int64_t) {
    const int64_t nodes = draw.number(most / 5, most);
    const int64_t edges = draw.number(2 * nodes, 4 * nodes);
    return model->forward(draw.noise({nodes, width}), draw.ids(nodes, {edges}), draw.ids(nodes, {edges}));
  });
}

Workload make_images(std::string_view name, Size size, uint64_t seed) {
  const ResNetConfig config =
      size == Size::kSmall ? ResNetConfig{{1, 1, 1, 1}, 4, 64, 4, 10} : ResNetConfig{{1, 1, 1, 1}, 16, 96, 4, 100};
  return assemble(name, ResNet(config), seed, [config](ResNet& model, Draw& draw, int64_t) {
    const int64_t image = 8 * draw.number(config.image / 16, config.image / 8);
    return model->forward(draw.noise({config.batch, 3, image, image}), draw.ids(config.classes, {config.batch}));
  });
}

struct MlpImpl : torch::nn::Module {
  MlpImpl(int64_t width, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(width, width)));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (torch::nn::Linear& layer : layers) {
      x = layer(x).relu();
    }
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Mlp);

struct GanImpl : torch::nn::Module {
  explicit GanImpl(int64_t width) : generator(width, 4), discriminator(width, 4) {
    register_module("generator", generator);
    register_module("discriminator", discriminator);
  }
  Mlp generator, discriminator;
};
TORCH_MODULE(Gan);

/// Even steps are the discriminator's, odd ones the generator's.
Workload make_gan(std::string_view name, Size size, uint64_t seed) {
  const int64_t width = size == Size::kSmall ? 16 : 128;
  const int64_t batch = size == Size::kSmall ? 16 : 256;
  return assemble(name, Gan(width), seed, [=](Gan& model, Draw& draw, int64_t step) {
    const torch::Tensor noise = draw.noise({batch, width});
    if (step % 2 == 0) {
      const torch::Tensor made = model->generator(noise).detach();
      const torch::Tensor real = model->discriminator(draw.noise({batch, width}));
      return (model->discriminator(made).square().mean() - real.mean()).square();
    }
    return model->discriminator(model->generator(noise)).sub(1).square().mean();
  });
}

Workload make_sizes(std::string_view name, Size size, uint64_t seed) {
  const int64_t width = size == Size::kSmall ? 16 : 128;
  return assemble(name, Mlp(width, 6), seed, [=](Mlp& model, Draw& draw, int64_t step) {
    const int64_t batch = width + step % 40 * (width / 16);
    return model->forward(draw.noise({batch, width})).square().mean();
  });
}

Workload make_one_other(std::string_view name, Size size, uint64_t seed) {
  const GptConfig config = gpt_config(size);
  return assemble(name, Gpt(config), seed, [config](Gpt& model, Draw& draw, int64_t step) {
    const int64_t tokens = step % 21 == 20 ? config.tokens : config.tokens / 2;
    return model->forward(draw.ids(config.vocabulary, {config.batch, tokens}),
                          draw.ids(config.vocabulary, {config.batch, tokens}));
  });
}

struct Entry {
  std::string_view name;
  Workload (*make)(std::string_view name, Size size, uint64_t seed);
};
constexpr Entry kEntries[] = {
    {"lengths", make_lengths},         {"packed", make_packed}, {"lstm_lengths", make_lstm_lengths},
    {"gru_lengths", make_gru_lengths}, {"trees", make_trees},   {"graphs", make_graphs},
    {"images", make_images},           {"gan", make_gan},       {"sizes", make_sizes},
    {"one_other", make_one_other},
};

}  // namespace

Workload make_changing_workload(std::string_view name, Size size, uint64_t seed) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) {
      torch::manual_seed(seed);
      return entry.make(name, size, seed);
    }
  }
  throw std::invalid_argument("make_changing_workload: no workload is called '" + std::string(name) + "'");
}

const std::vector<std::string>& changing_workload_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Entry& entry : kEntries) {
      all.emplace_back(entry.name);
    }
    return all;
  }();
  return names;
}

}  // namespace workloads
