// A GPT on text and a residual network on images.
#include "models.h"

#include <torch/torch.h>

#include <encore/checkpoint.h>

#include "cnn.h"
#include "data.h"
#include "workloads/gpt.h"

namespace demo {
namespace {

class GptOnText final : public Model {
 public:
  GptOnText(const workloads::GptConfig& config, std::shared_ptr<const Text> text)
      : config_(config), text_(std::move(text)), gpt_(config) {}

  torch::Tensor loss(int64_t step, Blocks blocks) override {
    const Batch batch = text_->batch(step, config_.batch, config_.tokens);
    return gpt_->forward(batch.inputs, batch.targets, [&](workloads::Block& block, const torch::Tensor& x) {
      return blocks == Blocks::kCheckpointed ? encore::checkpoint(block, x) : block(x);
    });
  }
  const torch::nn::Module& module() const override { return *gpt_; }

 private:
  workloads::GptConfig config_;
  std::shared_ptr<const Text> text_;
  workloads::Gpt gpt_;
};

class CnnOnImages final : public Model {
 public:
  CnnOnImages(const CnnConfig& config, std::shared_ptr<const Images> images)
      : batch_size_(config.batch), images_(std::move(images)), cnn_(config) {}

  torch::Tensor loss(int64_t step, Blocks blocks) override {
    const Batch batch = images_->batch(step, batch_size_);
    torch::Tensor x = cnn_->begin(batch.inputs);
    for (Residual& block : cnn_->blocks) {
      x = blocks == Blocks::kCheckpointed ? encore::checkpoint(block, x) : block(x);
    }
    return torch::cross_entropy_loss(cnn_->classify(x), batch.targets);
  }
  const torch::nn::Module& module() const override { return *cnn_; }

 private:
  int64_t batch_size_;
  std::shared_ptr<const Images> images_;
  Cnn cnn_;
};

Subject make_gpt(const Options& options) {
  workloads::GptConfig config;
  config.vocabulary = Text::kVocabulary;
  config.layers = options.quick ? 3 : 6;
  config.width = options.quick ? 48 : 192;
  config.tokens = options.quick ? 32 : 128;
  config.batch = options.quick ? 4 : 16;
  const auto text = std::make_shared<const Text>(options.text_file);
  return {"gpt",
          "a GPT of " + std::to_string(config.layers) + " layers, width " + std::to_string(config.width) +
              ", with dropout, on " + std::to_string(text->size()) + " characters of " + text->path(),
          [=] { return std::make_unique<GptOnText>(config, text); }};
}

Subject make_cnn(const Options& options) {
  CnnConfig config;
  if (options.quick) {
    config = {/*width=*/8, /*stages=*/2, /*blocks_in_stage=*/3, /*batch=*/8};
  }
  const auto images = std::make_shared<const Images>(options.image_folder);
  return {"cnn",
          "a residual CNN of " + std::to_string(config.stages * config.blocks_in_stage) +
              " blocks, with batch norm, on " + std::to_string(images->size()) + " images of " + images->folder(),
          [=] { return std::make_unique<CnnOnImages>(config, images); }};
}

}  // namespace

Subject make_subject(const std::string& name, const Options& options) {
  return name == "gpt" ? make_gpt(options) : make_cnn(options);
}

}  // namespace demo
