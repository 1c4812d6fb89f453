// Layer-wise checkpointing for chains that are driven by hand: no graph of the whole chain ever exists.
//
// The forward pass runs without gradients and keeps some activations; any other is computed again from the nearest one
// before it, and a backward pass goes through the chain segment by segment.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <encore/export.h>

namespace encore {

struct LayerCheckpointConfig {
  /// Layers 0, n, 2n, ... are checkpoint layers. At least 1.
  int64_t checkpoint_every_n_layers = 4;
  /// Keep no more than this many activations, the input not counted: one more, and the one that costs least to lose
  /// goes.
  int64_t max_checkpoints = 64;
  /// Keep floating-point activations of more than 16 bits in `half_type`, and give them back in their own type. The
  /// input is kept as it is.
  ///
  /// What comes back of a normal number x differs from it by at most |x| / 2^8 for bfloat16 and |x| / 2^11 for float16;
  /// below the smallest normal number (2^-126, float16: 2^-14) by at most 2^-134, float16: 2^-25. An activation with a
  /// finite value too large for the type (float16: 65,520 and more) is kept as it is.
  bool use_mixed_precision = false;
  /// at::kBFloat16 or at::kHalf.
  at::ScalarType half_type = at::kBFloat16;
};

/// Keeps activations of a chain of layers. One thread at a time.
class ENCORE_API ActivationCheckpointer {
 public:
  /// One layer: its result for the activation before it. It must do the same each time it is called.
  using Layer = std::function<at::Tensor(const at::Tensor& activation, int64_t layer)>;

  /// Throws InvalidArgument for n < 1, a negative max_checkpoints, and a half_type that is none.
  explicit ActivationCheckpointer(LayerCheckpointConfig config = {});
  ~ActivationCheckpointer();
  ActivationCheckpointer(ActivationCheckpointer&&) noexcept;
  ActivationCheckpointer& operator=(ActivationCheckpointer&&) noexcept;

  /// Keeps `activation` as the result of `layer`, in place of what was kept of it. The tensor itself is held, not a
  /// copy, unless it is stored in half or is part of a larger storage.
  void save(int64_t layer, const at::Tensor& activation);

  /// What is kept of the layer. Throws InvalidArgument if nothing is, ChangedError if it was changed in place since.
  at::Tensor get(int64_t layer) const;

  /// Lets go of everything.
  void clear();

  /// Runs the layers in their order, which must be rising, and returns the last one's result. Starts anew: what was
  /// kept before is let go. Keeps the input and the results of checkpoint layers; runs without gradients. An exception
  /// of the layer arrives unchanged; what was kept until then can be used.
  at::Tensor checkpointed_forward(const at::Tensor& input, const std::vector<int64_t>& layers, const Layer& layer);

  /// The result of `target_layer`, from the nearest activation kept at or before it. Random ops draw as they did in
  /// checkpointed_forward, from generators of the layers' own too. Throws InvalidArgument for a layer that is not in
  /// the list or has nothing kept before it, DeterminismError if a layer gives another shape or type, or draws from
  /// another generator, than in checkpointed_forward, ReplayError if it throws.
  at::Tensor recompute_from_checkpoint(int64_t target_layer, const std::vector<int64_t>& layers,
                                       const Layer& layer) const;

  /// Backward through the chain after checkpointed_forward: gradients of the leaves that the layers use (parameters)
  /// are added to their .grad, and the gradient of the input is returned. Each layer is called once; at most the
  /// longest segment between two kept activations has a graph at a time. Bit for bit what one backward through the
  /// whole chain gives, except that the contributions to a leaf that layers of several segments share are added up
  /// segment by segment. Errors as recompute_from_checkpoint; InvalidArgument if grad_output is not of the output's
  /// shape and type.
  at::Tensor backward_through(const std::vector<int64_t>& layers, const at::Tensor& grad_output, const Layer& layer);

  /// Bytes of the activations of the last checkpointed_forward that are in memory no more, less the bytes of copies in
  /// half. An activation that somebody else holds, or that shares the storage of one that is kept, saves nothing.
  int64_t memory_saved_bytes() const;
  /// Bytes that this object keeps alive, the input included; shared storages count once.
  int64_t memory_stored_bytes() const;
  /// Activations kept, the input not counted.
  int64_t num_checkpoints() const;
  bool is_checkpoint_layer(int64_t layer) const;
  const LayerCheckpointConfig& config() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace encore
