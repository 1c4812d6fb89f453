// The activations of a chain: which are kept, in which form, and how the others come back.
#include <encore/layers.h>

#include <map>
#include <unordered_set>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <encore/error.h>

#include "layers/generators_then.h"
#include "record/generators.h"
#include "tape/geometry.h"
#include "tape/random.h"

namespace encore {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

constexpr int64_t kInput = -1;  // the input stands before every layer

std::string name_of(int64_t layer) {
  return layer == kInput ? std::string("the input") : "layer " + std::to_string(layer);
}

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

/// One activation: the tensor itself or a copy in half, and the generator as it was when the layer had run.
struct Kept {
  at::Tensor tensor;
  int64_t version = 0;
  at::ScalarType dtype = at::kFloat;
  bool copied = false;
  tape::RandomState random;

  Kept(const at::Tensor& activation, bool mixed, at::ScalarType half_type)
      : dtype(activation.scalar_type()), random(at::detail::getDefaultCPUGenerator()) {
    const at::NoGradGuard no_grad;
    const at::Tensor plain = activation.detach();
    if (mixed && (dtype == at::kFloat || dtype == at::kDouble)) {
      tensor = plain.to(half_type);
      copied = true;
      // A finite number that became infinite would come back as another one altogether.
      if (!at::equal(at::isfinite(tensor), at::isfinite(plain))) {
        tensor = at::Tensor();
        copied = false;
      }
    }
    if (!tensor.defined()) {
      const bool part = tape::is_plain(plain) && static_cast<int64_t>(plain.storage().nbytes()) > bytes_of(plain);
      tensor = part ? plain.clone() : plain;
      copied = part;
    }
    version = version_of(tensor);
  }

  static int64_t bytes_of(const at::Tensor& tensor) {
    return tensor.numel() * static_cast<int64_t>(tensor.element_size());
  }

  at::Tensor get(int64_t layer) const {
    if (version_of(tensor) != version) {
      throw ChangedError("layers: the activation of " + name_of(layer) + ", " + tape::Geometry::of(tensor).text() +
                         ", was changed in place after it was saved; change a clone, or have the next layer work out "
                         "of place");
    }
    const at::NoGradGuard no_grad;
    return tensor.to(dtype);
  }
};

void check_layers(const std::vector<int64_t>& layers, const ActivationCheckpointer::Layer& layer) {
  if (!layer) {
    throw InvalidArgument("layers: the layer function is empty");
  }
  if (layers.empty()) {
    throw InvalidArgument("layers: the list of layers is empty");
  }
  if (layers.front() < 0) {
    throw InvalidArgument("layers: layer " + std::to_string(layers.front()) + " is negative; layers count from 0");
  }
  for (size_t i = 1; i < layers.size(); ++i) {
    if (layers[i] <= layers[i - 1]) {
      throw InvalidArgument("layers: layer " + std::to_string(layers[i]) + " stands after layer " +
                            std::to_string(layers[i - 1]) + "; list each layer once, in rising order");
    }
  }
}

}  // namespace

struct ActivationCheckpointer::Impl {
  LayerCheckpointConfig config;
  std::map<int64_t, Kept> kept;
  std::map<int64_t, std::pair<c10::SmallVector<int64_t, 5>, at::ScalarType>> shapes;  // of the last forward
  std::map<int64_t, std::vector<tape::RandomState>> draws;  // its layers' own generators, before each layer drew
  std::vector<std::pair<WeakStorage, int64_t>> seen;        // its activations, and their bytes
  std::optional<int64_t> last;                              // its last layer

  int64_t num_checkpoints() const { return static_cast<int64_t>(kept.size()) - (kept.count(kInput) > 0 ? 1 : 0); }

  void keep(int64_t layer, const at::Tensor& activation) {
    if (!activation.defined()) {
      throw InvalidArgument("layers: the activation of " + name_of(layer) + " is an undefined tensor");
    }
    kept.erase(layer);
    kept.emplace(layer, Kept(activation, config.use_mixed_precision && layer != kInput, config.half_type));
    while (num_checkpoints() > config.max_checkpoints) {
      evict();
    }
  }

  /// Without activation c between p and q, each of the layers c .. q-1 takes c - p more layers to recompute.
  void evict() {
    auto best = kept.end();
    int64_t best_cost = 0;
    for (auto c = kept.begin(); c != kept.end(); ++c) {
      if (c->first == kInput) {
        continue;
      }
      const int64_t p = c == kept.begin() ? kInput : std::prev(c)->first;
      const auto next = std::next(c);
      const int64_t end = std::max(last.value_or(c->first), c->first) + 1;
      const int64_t q = next == kept.end() ? end : next->first;
      const int64_t cost = (c->first - p) * (q - c->first);
      if (best == kept.end() || cost < best_cost) {
        best = c;
        best_cost = cost;
      }
    }
    kept.erase(best);
  }

  void note(const at::Tensor& activation) {
    if (!tape::is_plain(activation)) {
      return;
    }
    const auto* storage = activation.storage().unsafeGetStorageImpl();
    const bool known = std::any_of(
        seen.begin(), seen.end(), [storage](const auto& entry) { return entry.first._unsafe_get_target() == storage; });
    if (!known) {
      seen.emplace_back(activation.storage().getWeakStorageImpl(), static_cast<int64_t>(activation.storage().nbytes()));
    }
  }

  /// The nearest activation kept at or before the layer at `place` in the list: its place, -1 for the input.
  int64_t nearest(int64_t place, const std::vector<int64_t>& layers) const {
    for (; place >= 0; --place) {
      if (kept.count(layers[static_cast<size_t>(place)]) > 0) {
        return place;
      }
    }
    if (kept.count(kInput) == 0) {
      throw InvalidArgument(
          "layers: nothing is kept at or before the layer asked for, not even the input; run "
          "checkpointed_forward first");
    }
    return -1;
  }

  static int64_t layer_at(int64_t place, const std::vector<int64_t>& layers) {
    return place < 0 ? kInput : layers[static_cast<size_t>(place)];
  }

  const Kept& kept_at(int64_t place, const std::vector<int64_t>& layers) const {
    return kept.at(layer_at(place, layers));
  }

  /// The generators as they were when the layer at `place` had run.
  std::vector<tape::RandomState> random_after(int64_t place, const std::vector<int64_t>& layers) const {
    std::vector<tape::RandomState> states = {kept_at(place, layers).random};
    for (auto draw = draws.upper_bound(layer_at(place, layers)); draw != draws.end(); ++draw) {
      for (const tape::RandomState& state : draw->second) {
        if (!LayersThen::holds(states, state.generator())) {
          states.push_back(state);
        }
      }
    }
    return states;
  }

  at::Tensor call_again(const Layer& layer, const at::Tensor& activation, int64_t index, LayersThen& random) const {
    at::Tensor result;
    try {
      result = layer(activation, index);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw ReplayError("layers: layer " + std::to_string(index) + " threw when it was called again: " + error.what());
    }
    random.check(index);
    const auto shape = shapes.find(index);
    if (shape != shapes.end() && !(result.defined() && result.sizes() == at::IntArrayRef(shape->second.first) &&
                                   result.scalar_type() == shape->second.second)) {
      throw DeterminismError("layers: layer " + std::to_string(index) + " gave " + c10::toString(shape->second.second) +
                             c10::str(at::IntArrayRef(shape->second.first)) + " in the forward pass and " +
                             (result.defined() ? c10::toString(result.scalar_type()) + c10::str(result.sizes())
                                               : std::string("an undefined tensor")) +
                             " when it was called again; it must do the same each time");
    }
    return result;
  }
};

ActivationCheckpointer::ActivationCheckpointer(LayerCheckpointConfig config) : impl_(std::make_unique<Impl>()) {
  if (config.checkpoint_every_n_layers < 1) {
    throw InvalidArgument("layers: checkpoint_every_n_layers is " + std::to_string(config.checkpoint_every_n_layers) +
                          "; it must be at least 1");
  }
  if (config.max_checkpoints < 0) {
    throw InvalidArgument("layers: max_checkpoints is " + std::to_string(config.max_checkpoints) +
                          "; it must not be negative");
  }
  if (config.half_type != at::kBFloat16 && config.half_type != at::kHalf) {
    throw InvalidArgument(std::string("layers: half_type is ") + c10::toString(config.half_type) +
                          "; it must be BFloat16 or Half");
  }
  impl_->config = config;
}

ActivationCheckpointer::~ActivationCheckpointer() = default;
ActivationCheckpointer::ActivationCheckpointer(ActivationCheckpointer&&) noexcept = default;
ActivationCheckpointer& ActivationCheckpointer::operator=(ActivationCheckpointer&&) noexcept = default;

void ActivationCheckpointer::save(int64_t layer, const at::Tensor& activation) {
  if (layer < 0) {
    throw InvalidArgument("layers: layer " + std::to_string(layer) + " is negative; layers count from 0");
  }
  impl_->keep(layer, activation);
}

at::Tensor ActivationCheckpointer::get(int64_t layer) const {
  const auto found = impl_->kept.find(layer);
  if (layer < 0 || found == impl_->kept.end()) {
    throw InvalidArgument("layers: nothing is kept of layer " + std::to_string(layer) +
                          "; recompute_from_checkpoint gives any layer");
  }
  return found->second.get(layer);
}

void ActivationCheckpointer::clear() {
  impl_->kept.clear();
  impl_->shapes.clear();
  impl_->draws.clear();
  impl_->seen.clear();
  impl_->last.reset();
}

at::Tensor ActivationCheckpointer::checkpointed_forward(const at::Tensor& input, const std::vector<int64_t>& layers,
                                                        const Layer& layer) {
  check_layers(layers, layer);
  clear();
  const at::NoGradGuard no_grad;
  impl_->last = layers.back();
  impl_->keep(kInput, input);
  at::Tensor current = input.detach();
  record::GeneratorWatch generators;
  for (const int64_t index : layers) {
    current = layer(current, index);
    impl_->draws[index] = generators.take();
    if (!current.defined()) {
      throw InvalidArgument("layers: layer " + std::to_string(index) + " returned an undefined tensor");
    }
    impl_->note(current);
    impl_->shapes[index] = {c10::SmallVector<int64_t, 5>(current.sizes().begin(), current.sizes().end()),
                            current.scalar_type()};
    if (is_checkpoint_layer(index)) {
      impl_->keep(index, current);
    }
  }
  return current;
}

at::Tensor ActivationCheckpointer::recompute_from_checkpoint(int64_t target_layer, const std::vector<int64_t>& layers,
                                                             const Layer& layer) const {
  check_layers(layers, layer);
  const auto target = std::find(layers.begin(), layers.end(), target_layer);
  if (target == layers.end()) {
    throw InvalidArgument("layers: layer " + std::to_string(target_layer) + " is not in the list of " +
                          std::to_string(layers.size()) + " layers");
  }
  const int64_t start = impl_->nearest(target - layers.begin(), layers);
  const Kept& kept = impl_->kept_at(start, layers);
  const at::NoGradGuard no_grad;
  LayersThen random(impl_->random_after(start, layers));
  at::Tensor current = kept.get(Impl::layer_at(start, layers));
  for (auto next = layers.begin() + start + 1; next <= target; ++next) {
    current = impl_->call_again(layer, current, *next, random);
  }
  return current;
}

at::Tensor ActivationCheckpointer::backward_through(const std::vector<int64_t>& layers, const at::Tensor& grad_output,
                                                    const Layer& layer) {
  check_layers(layers, layer);
  if (!grad_output.defined()) {
    throw InvalidArgument("layers: the gradient of the output is an undefined tensor");
  }
  at::Tensor gradient = grad_output.detach();
  for (auto end = static_cast<int64_t>(layers.size()); end > 0;) {
    // From the activation before the segment's last layer at the latest: that layer needs a graph.
    const int64_t start = impl_->nearest(end - 2, layers);
    const Kept& kept = impl_->kept_at(start, layers);
    at::Tensor input = kept.get(Impl::layer_at(start, layers)).detach();
    const bool differentiable = input.is_floating_point() || input.is_complex();
    input.set_requires_grad(differentiable);
    at::Tensor output = input;
    {
      LayersThen random(impl_->random_after(start, layers));
      const at::AutoGradMode grad(true);
      for (int64_t place = start + 1; place < end; ++place) {
        output = impl_->call_again(layer, output, layers[static_cast<size_t>(place)], random);
      }
    }
    if (gradient.sizes() != output.sizes() || gradient.scalar_type() != output.scalar_type()) {
      throw InvalidArgument("layers: the gradient of the output is " + tape::Geometry::of(gradient).text() +
                            ", the output is " + tape::Geometry::of(output).text());
    }
    if (output.requires_grad()) {
      torch::autograd::backward({output}, {gradient});
    }
    gradient = input.grad().defined() ? input.grad() : at::zeros_like(input.detach());
    end = start + 1;
  }
  return gradient;
}

int64_t ActivationCheckpointer::memory_saved_bytes() const {
  int64_t bytes = 0;
  for (const auto& [storage, nbytes] : impl_->seen) {
    bytes += storage.expired() ? nbytes : 0;
  }
  for (const auto& [layer, kept] : impl_->kept) {
    bytes -= kept.copied && layer != kInput ? Kept::bytes_of(kept.tensor) : 0;
  }
  return std::max<int64_t>(bytes, 0);
}

int64_t ActivationCheckpointer::memory_stored_bytes() const {
  std::unordered_set<const c10::StorageImpl*> counted;
  int64_t bytes = 0;
  for (const auto& entry : impl_->kept) {
    const at::Tensor& tensor = entry.second.tensor;
    if (!tensor.has_storage()) {
      bytes += Kept::bytes_of(tensor);
    } else if (counted.insert(tensor.storage().unsafeGetStorageImpl()).second) {
      bytes += static_cast<int64_t>(tensor.storage().nbytes());
    }
  }
  return bytes;
}

int64_t ActivationCheckpointer::num_checkpoints() const {
  return impl_->num_checkpoints();
}

bool ActivationCheckpointer::is_checkpoint_layer(int64_t layer) const {
  return layer >= 0 && layer % impl_->config.checkpoint_every_n_layers == 0;
}

const LayerCheckpointConfig& ActivationCheckpointer::config() const {
  return impl_->config;
}

}  // namespace encore
