// Buckets, and their comparison between ranks.
#include "dist/layout.h"

#include <map>
#include <sstream>

#include <torch/nn/module.h>
#include <xxhash.h>

#include <encore/version.h>

#include "base/plain_numbers.h"

namespace encore::dist {
namespace {

std::string line_of(const char* kind, const std::string& name, const at::Tensor& tensor) {
  PlainStream line;
  line << kind << " '" << name << "' " << c10::toString(tensor.scalar_type()) << " " << tensor.sizes() << " strides "
       << tensor.strides() << (tensor.requires_grad() ? "" : ", without a gradient");
  return line.str();
}

void require_dense(const char* kind, const std::string& name, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu()) {
    throw InvalidArgument("dist: " + std::string(kind) + " '" + name + "' is on " + tensor.device().str() +
                          " or not dense; only dense CPU tensors can be reduced");
  }
}

/// Parameters in reverse, by type: about the order in which backward completes their gradients.
void fill_buckets(Layout& layout, int64_t bucket_bytes) {
  std::map<at::ScalarType, Bucket> open;
  const auto close = [&](Bucket& bucket) {
    if (!bucket.parameters.empty()) {
      layout.slot_bytes = std::max(layout.slot_bytes, bucket.alone ? 0 : bucket.nbytes);
      layout.buckets.push_back(std::move(bucket));
      bucket = Bucket{};
    }
  };
  for (size_t i = layout.parameters.size(); i-- > 0;) {
    const at::Tensor& tensor = layout.parameters[i].tensor;
    if (!tensor.requires_grad() || tensor.numel() == 0) {
      continue;
    }
    const auto nbytes = static_cast<int64_t>(tensor.nbytes());
    Bucket& bucket = open[tensor.scalar_type()];
    if (bucket.nbytes + nbytes > bucket_bytes) {
      close(bucket);
    }
    bucket.type = tensor.scalar_type();
    layout.parameters[i].offset = bucket.count;
    bucket.parameters.push_back(i);
    bucket.count += tensor.numel();
    bucket.nbytes += nbytes;
    if (nbytes >= bucket_bytes) {
      bucket.alone = true;
      close(bucket);
    }
  }
  for (auto& [type, bucket] : open) {
    close(bucket);
  }
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    for (const size_t i : layout.buckets[b].parameters) {
      layout.parameters[i].bucket = b;
    }
  }
}

/// The first line that one has and the other has not.
std::string first_difference(const std::vector<std::string>& mine, const std::string& theirs, int rank) {
  std::istringstream lines(theirs);
  std::string line;
  for (size_t i = 0;; ++i) {
    const bool more = static_cast<bool>(std::getline(lines, line));
    if (!more && i >= mine.size()) {
      return "";
    }
    if (!more || i >= mine.size() || line != mine[i]) {
      return "rank 0 has " + (more ? line : std::string("nothing more")) + " where rank " + std::to_string(rank) +
             " has " + (i < mine.size() ? mine[i] : "nothing more");
    }
  }
}

}  // namespace

std::vector<at::Tensor> Layout::tensors() const {
  std::vector<at::Tensor> all;
  for (const Parameter& parameter : parameters) {
    all.push_back(parameter.tensor);
  }
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

Layout layout_of(const torch::nn::Module& model, int64_t bucket_bytes) {
  Layout layout;
  std::map<const at::TensorImpl*, std::string> seen;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined()) {
      continue;
    }
    require_dense("parameter", item.key(), tensor);
    const auto [first, is_new] = seen.emplace(tensor.unsafeGetTensorImpl(), item.key());
    if (!is_new) {
      layout.lines.push_back("parameter '" + item.key() + "', which is '" + first->second + "'");
      continue;
    }
    if (tensor.requires_grad() && !compat::gloo_adds(tensor.scalar_type())) {
      throw InvalidArgument("dist: parameter '" + item.key() + "' is of type " + c10::toString(tensor.scalar_type()) +
                            ", which Gloo of this LibTorch does not add; keep parameters in float");
    }
    layout.lines.push_back(line_of("parameter", item.key(), tensor));
    Parameter parameter;
    parameter.name = item.key();
    parameter.tensor = tensor;
    parameter.keeps_strides = tensor.is_non_overlapping_and_dense();
    layout.parameters.push_back(std::move(parameter));
  }
  for (const auto& item : model.named_buffers()) {
    if (item.value().defined()) {
      require_dense("buffer", item.key(), item.value());
      layout.lines.push_back(line_of("buffer", item.key(), item.value()));
      if (seen.emplace(item.value().unsafeGetTensorImpl(), item.key()).second) {
        layout.buffers.push_back(item.value());
      }
    }
  }
  fill_buckets(layout, bucket_bytes);
  if (layout.buckets.empty()) {
    throw InvalidArgument("dist: the model has no parameter that requires a gradient");
  }
  return layout;
}

void agree(Channel& channel, const Layout& layout, const std::string& options) {
  const std::string name = "comparing models";
  // The lines of the versions come first: of what follows, another version may have another form.
  std::vector<std::string> lines{"Encore " + std::to_string(ENCORE_VERSION_MAJOR) + "." +
                                     std::to_string(ENCORE_VERSION_MINOR) + "." + std::to_string(ENCORE_VERSION_PATCH) +
                                     ", LibTorch " TORCH_VERSION,
                                 options};
  lines.insert(lines.end(), layout.lines.begin(), layout.lines.end());
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\n";
  }
  const auto hash = static_cast<int64_t>(XXH3_64bits(text.data(), text.size()));
  const auto hashes = channel.exchange({hash}, name);
  if (std::all_of(hashes.begin(), hashes.end(), [&](const auto& row) { return row[0] == hashes[0][0]; })) {
    return;
  }
  const std::string theirs = channel.text_from(0, text, name);
  const std::string mine = first_difference(lines, theirs, channel.rank());
  for (int rank = 1; rank < channel.size(); ++rank) {
    if (hashes[static_cast<size_t>(rank)][0] != hashes[0][0]) {
      throw InvalidArgument("dist: the ranks differ: " + channel.text_from(rank, mine, name));
    }
  }
}

}  // namespace encore::dist
