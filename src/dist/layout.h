// What is reduced with what, in which order: the same on every rank.
#pragma once

#include "dist/channel.h"

namespace encore::dist {

struct Parameter {
  std::string name;  // the first, where several modules share it
  at::Tensor tensor;
  size_t bucket = 0;
  int64_t offset = 0;          // in its bucket, in numbers
  bool keeps_strides = false;  // its gradient lies in memory as it does itself; else in order
};

struct Bucket {
  std::vector<size_t> parameters;
  at::ScalarType type{};
  int64_t count = 0;  // of numbers
  int64_t nbytes = 0;
  /// One parameter that is at least as large as buckets may be: reduced in its gradient's own memory.
  bool alone = false;
};

struct Layout {
  std::vector<Parameter> parameters;
  std::vector<Bucket> buckets;
  std::vector<at::Tensor> buffers;
  std::vector<std::string> lines;  // one for each parameter, name and buffer; what ranks compare
  int64_t slot_bytes = 0;          // the largest bucket that takes a slot

  std::vector<at::Tensor> tensors() const;  // parameters, then buffers
};

/// Throws InvalidArgument for what can't be reduced.
Layout layout_of(const torch::nn::Module& model, int64_t bucket_bytes);

/// Throws InvalidArgument on every rank, naming the difference, unless all have the same layout, options and versions.
void agree(Channel& channel, const Layout& layout, const std::string& options);

}  // namespace encore::dist
