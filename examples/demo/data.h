// What the models learn from. Kept outside of tensors, so that a budget is the model's alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/types.h>

namespace demo {

/// What a model sees in one step.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
};

/// A text, character by character: the 95 printable characters of ASCII and the end of a line; all others are spaces.
class Text {
 public:
  static constexpr int64_t kVocabulary = 96;

  /// An empty `path` is the text that comes with the demo. Throws encore::InvalidArgument if it can't be read.
  explicit Text(const std::string& path);

  size_t size() const { return ids_.size(); }
  const std::string& path() const { return path_; }
  /// `count` places of the text, `length` characters each, and the characters that follow them. Chosen by `step`.
  Batch batch(int64_t step, int64_t count, int64_t length) const;

 private:
  std::string path_;
  std::vector<uint8_t> ids_;
};

/// Small grey images in ten classes, from the IDX files of Fashion-MNIST or MNIST, compressed or not.
class Images {
 public:
  static constexpr int64_t kClasses = 10;

  /// An empty `folder` is that of Debian's package. Throws encore::InvalidArgument if a file is missing or damaged.
  explicit Images(const std::string& folder);

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  const std::string& folder() const { return folder_; }
  /// `count` images, chosen by `step`, as [count, 1, height, width] from 0 to 1, and their classes.
  Batch batch(int64_t step, int64_t count) const;

 private:
  std::string folder_;
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
  int64_t height_ = 0;
  int64_t width_ = 0;
};

}  // namespace demo
