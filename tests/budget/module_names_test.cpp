// Which module each value of a report is said to belong to. What is right is counted here, from the order in which each
// model calls its modules.
#include "support/torch_pch.h"
#include "workloads/gpt.h"
#include "workloads/resnet.h"
#include "workloads/unet.h"

namespace encore::test {
namespace {

/// Says of each forward value by which module it was made, in the order in which they are complete: what is changed in
/// place, after that.
using Oracle = std::function<std::string(const std::string& op, int64_t bytes)>;

/// Trains a few steps with an optimizer, as users do; its report's forward values, with the bytes under names that are
/// not what `oracle` says.
void expect_modules(torch::nn::Module& model, const std::function<at::Tensor()>& loss, const Oracle& oracle) {
  torch::optim::Adam optimizer(model.parameters());
  MemoryBudget budget("1GiB");
  budget.leave_alone_below(1);
  budget.name_modules_of(model);
  for (int i = 0; i < 3; ++i) {
    const auto step = budget.step();
    optimizer.zero_grad();
    loss().backward();
    optimizer.step();
  }
  ASSERT_EQ(budget.report().mode, StepMode::kPlanned);
  int64_t all = 0;
  int64_t wrong = 0;
  std::string which;
  for (const ValueReport& value : budget.report().values) {
    const std::string op = value.name.substr(0, value.name.find(' '));
    const std::string right = oracle(op, value.bytes);
    all += value.bytes;
    if (value.module != right) {
      wrong += value.bytes;
      which += value.name + " of '" + right + "' was given to '" + value.module + "'\n";
    }
    if (op.find("nll_loss") != std::string::npos || op == "aten::mse_loss") {
      break;  // from here on it is the optimizer's
    }
  }
  EXPECT_GT(all, 100'000);
  EXPECT_LE(static_cast<double>(wrong), 0.05 * static_cast<double>(all)) << which;
  EXPECT_EQ(which, "");
}

/// "aten::mul" of "aten::mul.Tensor".
std::string base_name(const std::string& op) {
  return op.substr(0, op.find('.'));
}

bool is_linear(const std::string& op) {
  return base_name(op) == "aten::addmm" || base_name(op) == "aten::mm";
}

/// Tells the ops of dropout from others: a mask is made, and the next product is the masked value.
class DropoutOps {
 public:
  bool is(const std::string& op) {
    if (base_name(op) == "aten::empty_like") {
      open_ = true;
      return true;
    }
    const bool masks = open_ && base_name(op) == "aten::mul";
    open_ = open_ && !masks;
    return masks;
  }

 private:
  bool open_ = false;
};

TEST(ModuleNames, OfAGptAreTheRightOnes) {
  const workloads::GptConfig config{/*layers=*/3, /*width=*/32,      /*heads=*/2,    /*tokens=*/16,
                                    /*batch=*/2,  /*vocabulary=*/32, /*dropout=*/0.1};
  workloads::Gpt gpt(config);
  const auto [inputs, targets] = workloads::make_batch(config, 1);
  int64_t norms = 0, linears = 0, sums = 2;
  const Oracle oracle = [&, layers = config.layers](const std::string& op, int64_t bytes) -> std::string {
    if (op == "aten::embedding") {  // C++ does not say which operand of the sum comes first; positions have no batch
      return bytes == 4 * config.tokens * config.width ? "position" : "token";
    }
    const std::string block = "block" + std::to_string((norms - 1) / 2);
    if (op == "aten::native_layer_norm") {
      sums = norms % 2 == 0 ? 0 : sums;
      const int64_t norm = norms++;
      return norm == 2 * layers ? "norm" : "block" + std::to_string(norm / 2) + (norm % 2 == 0 ? ".norm1" : ".norm2");
    }
    if (is_linear(op)) {
      const char* names[] = {".query", ".key", ".value", ".project", ".expand", ".contract"};
      return linears == 6 * layers ? "head" : block + names[linears++ % 6];
    }
    const bool in_block = sums < 2 && norms <= 2 * layers;  // a block ends with its second sum
    sums += base_name(op) == "aten::add" ? 1 : 0;
    return in_block ? block : "";
  };
  expect_modules(
      *gpt, [&, in = inputs, out = targets] { return gpt->forward(in, out); }, oracle);
}

/// Convolutions and norms are the modules of the list, in that order; all else is the model's own.
Oracle in_order(std::vector<std::string> convolutions, std::vector<std::string> norms) {
  return [=, conv = size_t{0}, norm = size_t{0}](const std::string& op, int64_t) mutable -> std::string {
    if (op == "aten::convolution") {
      return convolutions.at(conv++);
    }
    if (op == "aten::native_batch_norm" || op == "aten::_batch_norm_with_update") {
      return norms.at(norm++);
    }
    return is_linear(op) ? "head" : "";
  };
}

TEST(ModuleNames, OfResNet50AreTheRightOnes) {
  workloads::ResNetConfig config;
  config.width = 4;
  config.image = 32;
  config.batch = 2;
  config.classes = 10;
  workloads::ResNet net(config);
  const auto [inputs, targets] = workloads::make_batch(config, 1);
  std::vector<std::string> convolutions = {"stem"};
  std::vector<std::string> norms = {"norm"};
  for (size_t i = 0; i < net->blocks.size(); ++i) {
    const std::string block = "block" + std::to_string(i) + ".";
    for (const char* name : {"reduce", "spread", "widen"}) {
      convolutions.push_back(block + name);
    }
    norms.push_back(block + "norm1");
    norms.push_back(block + "norm2");
    if (net->blocks[i]->shortcut) {
      convolutions.push_back(block + "shortcut");
      norms.push_back(block + "shortcut_norm");
    }
    norms.push_back(block + "norm3");  // to which the shortcut is added in place
  }
  EXPECT_EQ(convolutions.size(), 53U);
  expect_modules(
      *net, [&, in = inputs, out = targets] { return net->forward(in, out); }, in_order(convolutions, norms));
}

TEST(ModuleNames, OfAUNetAreTheRightOnes) {
  const workloads::UNetConfig config{/*levels=*/3, /*base=*/4, /*image=*/32, /*batch=*/2, /*classes=*/2};
  workloads::UNet net(config);
  const auto [inputs, targets] = workloads::make_batch(config, 1);
  std::vector<std::string> convolutions;
  std::vector<std::string> norms;
  const auto add_double = [&](const std::string& name) {
    convolutions.insert(convolutions.end(), {name + ".conv1", name + ".conv2"});
    norms.insert(norms.end(), {name + ".norm1", name + ".norm2"});
  };
  for (int64_t level = 0; level <= config.levels; ++level) {
    add_double("down" + std::to_string(level));
  }
  for (int64_t level = 0; level < config.levels; ++level) {
    convolutions.push_back("widen" + std::to_string(level));
    add_double("up" + std::to_string(level));
  }
  convolutions.emplace_back("head");
  expect_modules(
      *net, [&, in = inputs, out = targets] { return net->forward(in, out); }, in_order(convolutions, norms));
}

TEST(ModuleNames, OfATransformerEncoderAreTheRightOnes) {
  torch::nn::TransformerEncoder encoder(
      torch::nn::TransformerEncoderOptions(torch::nn::TransformerEncoderLayerOptions(32, 2).dim_feedforward(128), 3));
  const at::Tensor input = torch::randn({16, 4, 32});
  const at::Tensor target = torch::randn({16, 4, 32});
  int64_t norms = 0, linears = 0;
  DropoutOps dropout;
  const Oracle oracle = [&](const std::string& op, int64_t) -> std::string {
    const std::string layer = "layers." + std::to_string(norms / 2);
    const bool is_dropout = dropout.is(op);
    if (norms == 6) {
      return "";
    }
    if (op == "aten::native_layer_norm") {
      return layer + (norms++ % 2 == 0 ? ".norm1" : ".norm2");
    }
    if (is_linear(op)) {
      const char* names[] = {".self_attn", ".self_attn.out_proj", ".linear1", ".linear2"};
      return layer + names[linears++ % 4];
    }
    const int64_t last = (linears - 1) % 4;
    // Attention ends with the mean of its weights over the heads; all that is no child's is then the layer's own.
    const bool is_mean = last == 1 && (base_name(op) == "aten::sum" || base_name(op) == "aten::div");
    const char* dropouts[] = {".self_attn", ".dropout1", ".dropout", ".dropout2"};
    return last == 0 || is_mean ? layer + ".self_attn" : is_dropout ? layer + dropouts[last] : layer;
  };
  expect_modules(
      *encoder, [&] { return torch::mse_loss(encoder->forward(input), target); }, oracle);
}

/// Residual blocks that end with a sum and relu, of which only the form of other blocks tells that it is theirs.
struct PlainBlockImpl : torch::nn::Module {
  PlainBlockImpl() {
    first = register_module("first", torch::nn::Linear(32, 32));
    second = register_module("second", torch::nn::Linear(32, 32));
  }
  at::Tensor forward(const at::Tensor& x) { return (x + second(first(x).sigmoid())).relu(); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(PlainBlock);

/// Reads the embedding's own weight.
struct TiedHeadImpl : torch::nn::Module {
  explicit TiedHeadImpl(const at::Tensor& shared) : weight(register_parameter("weight", shared)) {}
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight.t()); }
  at::Tensor weight;
};
TORCH_MODULE(TiedHead);

struct MixedNetImpl : torch::nn::Module {
  MixedNetImpl() {
    token = register_module("token", torch::nn::Embedding(32, 32));
    stem = register_module("stem",
                           torch::nn::Sequential(torch::nn::Linear(32, 32), torch::nn::ReLU(), torch::nn::Dropout(0.1),
                                                 torch::nn::Linear(32, 32), torch::nn::GELU()));
    for (int i = 0; i < 2; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), PlainBlock()));
    }
    head = register_module("head", TiedHead(token->weight));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return head(blocks[1](blocks[0](stem->forward(token(tokens)))) * 0.5);
  }

  torch::nn::Embedding token{nullptr};
  torch::nn::Sequential stem{nullptr};
  std::vector<PlainBlock> blocks;
  TiedHead head{nullptr};
};
TORCH_MODULE(MixedNet);

TEST(ModuleNames, OfLayersWithoutParametersAndOfTiedOnesAreTheRightOnes) {
  MixedNet net;
  const at::Tensor tokens = torch::randint(32, {64}, torch::kLong);
  const at::Tensor target = torch::randn({64, 32});
  const std::vector<std::pair<std::string, std::string>> right = {{"aten::embedding", "token"},
                                                                  {"aten::addmm", "stem.0"},
                                                                  {"aten::relu", "stem.1"},
                                                                  {"aten::empty_like", "stem.2"},
                                                                  {"aten::mul", "stem.2"},
                                                                  {"aten::addmm", "stem.3"},
                                                                  {"aten::gelu", "stem.4"},
                                                                  {"aten::addmm", "block0.first"},
                                                                  {"aten::sigmoid", "block0"},
                                                                  {"aten::addmm", "block0.second"},
                                                                  {"aten::add", "block0"},
                                                                  {"aten::relu", "block0"},
                                                                  {"aten::addmm", "block1.first"},
                                                                  {"aten::sigmoid", "block1"},
                                                                  {"aten::addmm", "block1.second"},
                                                                  {"aten::add", "block1"},
                                                                  {"aten::relu", "block1"},
                                                                  {"aten::mul", ""},
                                                                  {"aten::mm", "head"},
                                                                  {"aten::mse_loss", ""}};
  size_t next = 0;
  expect_modules(
      *net, [&] { return torch::mse_loss(net->forward(tokens), target); },
      [&](const std::string& op, int64_t) {
        EXPECT_EQ(base_name(op), right.at(next).first);
        return right.at(next++).second;
      });
  EXPECT_EQ(next, right.size());
}

}  // namespace
}  // namespace encore::test
