// Captions of images: a convolutional encoder, and an LSTM over packed sequences that is told the right words.
#include "programs/programs.h"

namespace encore::test {
namespace {

namespace rnn = torch::nn::utils::rnn;

constexpr int64_t kVocabulary = 300;
constexpr int64_t kEmbedding = 64;
constexpr int64_t kBatch = 16;

struct EncoderImpl : torch::nn::Module {
  EncoderImpl()
      : conv1(torch::nn::Conv2dOptions(3, 16, 3).padding(1)),
        norm1(16),
        conv2(torch::nn::Conv2dOptions(16, 32, 3).padding(1)),
        norm2(32),
        linear(32 * 8 * 8, kEmbedding),
        norm(torch::nn::BatchNorm1dOptions(kEmbedding).momentum(0.01)) {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("linear", linear);
    register_module("norm", norm);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm1->forward(conv1->forward(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2->forward(conv2->forward(x))), 2);
    return norm->forward(linear->forward(x.reshape({x.size(0), -1})));
  }
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
};
TORCH_MODULE(Encoder);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl()
      : embed(kVocabulary, kEmbedding),
        lstm(torch::nn::LSTMOptions(kEmbedding, 96).batch_first(true)),
        linear(96, kVocabulary) {
    register_module("embed", embed);
    register_module("lstm", lstm);
    register_module("linear", linear);
  }
  torch::Tensor forward(const torch::Tensor& features, const torch::Tensor& captions, const torch::Tensor& lengths) {
    torch::Tensor embeddings = embed->forward(captions);
    embeddings = torch::cat({features.unsqueeze(1), embeddings}, 1);
    rnn::PackedSequence packed = rnn::pack_padded_sequence(embeddings, lengths, true);
    rnn::PackedSequence hidden = std::get<0>(lstm->forward_with_packed_input(packed));
    return linear->forward(hidden.data());
  }
  torch::nn::Embedding embed;
  torch::nn::LSTM lstm;
  torch::nn::Linear linear;
};
TORCH_MODULE(Decoder);

}  // namespace

void train_captioning(Run& run) {
  Encoder encoder;
  Decoder decoder;
  std::vector<torch::Tensor> parameters = encoder->parameters();
  for (const torch::Tensor& parameter : decoder->parameters()) {
    parameters.push_back(parameter);
  }
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-3));
  torch::Tensor images = torch::rand({6, kBatch, 3, 32, 32});
  torch::Tensor captions = torch::randint(kVocabulary, {6, kBatch, 20}, torch::kLong);

  auto budget = run.budget(parameters);
  for (int i = 0; i < 6; ++i) {
    // Sorted, as packing wants them; those of the fourth batch are shorter.
    torch::Tensor lengths = torch::arange(i == 3 ? 18 : 20, i == 3 ? 2 : 4, -1, torch::kLong);
    auto step = budget.step();
    torch::Tensor words = captions[i].slice(1, 0, lengths[0].item<int64_t>());
    torch::Tensor targets = rnn::pack_padded_sequence(words, lengths, true).data();
    torch::Tensor features = encoder->forward(images[i]);
    torch::Tensor output = decoder->forward(features, words, lengths);
    torch::Tensor loss = torch::nn::functional::cross_entropy(output, targets);
    decoder->zero_grad();
    encoder->zero_grad();
    loss.backward();
    optimizer.step();
    run.loss(loss);
  }
  run.keep("encoder", *encoder);
  run.keep("decoder", *decoder);
}

}  // namespace encore::test
