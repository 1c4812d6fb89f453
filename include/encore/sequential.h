// Checkpointing of module chains, in segments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include <encore/checkpoint.h>
#include <encore/error.h>
#include <encore/export.h>

namespace encore {

/// What segments are balanced by.
enum class Balance {
  kCount,  ///< the number of layers
  kTime,   ///< measured time of forward
  kBytes,  ///< measured bytes that backward would keep
};

struct SequentialOptions {
  /// kTime and kBytes run the layers once more, on a copy of the input, to measure them. Generators that ops drew from,
  /// tensors that ops wrote to and the buffers of a torch::nn::Sequential are put back as they were.
  Balance balance = Balance::kCount;
  /// The last segment's values are needed as soon as backward begins: recomputing them would cost time and save
  /// nothing.
  bool checkpoint_last = false;
  /// Of each segment; its name is followed by the segment's number.
  CheckpointOptions checkpoint;
};

/// What one layer costs.
struct LayerCost {
  int64_t forward_ns = 0;
  int64_t saved_bytes = 0;   ///< that it leaves in memory: its result, and what backward would keep
  int64_t output_bytes = 0;  ///< of its result, where that is a tensor
};

/// Sizes of `num_segments` segments of consecutive layers, none more than one layer longer than another, the longer
/// first: 9 layers in 5 segments are 2, 2, 2, 2, 1. More segments than layers: one layer each. Throws InvalidArgument
/// for less than one segment or layer.
ENCORE_API std::vector<int64_t> balanced_segments(int64_t num_layers, int64_t num_segments);

/// Sizes of `num_segments` segments of consecutive layers, the dearest of them as cheap as can be. Throws
/// InvalidArgument also for a negative cost.
ENCORE_API std::vector<int64_t> balanced_segments(const std::vector<int64_t>& costs, int64_t num_segments);

/// Sizes of segments, as many as it takes, for the least peak: results at the borders, plus the largest segment.
ENCORE_API std::vector<int64_t> least_peak_segments(const std::vector<LayerCost>& costs);

namespace detail {

/// Measures layer after layer: `run(i)` runs layer i on what the one before gave; `cut()` lets go of its graph, keeps
/// its result, and tells that one's bytes. `buffers`, and what else ops overwrite or draw from, are put back.
ENCORE_API std::vector<LayerCost> measure_layers(int64_t num_layers, const std::function<void(int64_t)>& run,
                                                 const std::function<int64_t()>& cut,
                                                 const std::vector<at::Tensor>& buffers);

/// A copy without history, for layers to be measured on: the first may work in place.
ENCORE_API void copy_input(at::Tensor& tensor);

/// Lets go of the tensor's history. What is no leaf does not become one: the next layer may work in place.
ENCORE_API void cut_history(at::Tensor& tensor);

/// Segment sizes; `num_segments` = 0 for least_peak_segments.
ENCORE_API std::vector<int64_t> plan_segments(Balance balance, int64_t num_layers, int64_t num_segments,
                                              const std::function<std::vector<LayerCost>()>& measure);

/// Plans by the signature of the inputs. Any thread may call.
class ENCORE_API SegmentPlans {
 public:
  SegmentPlans();
  ~SegmentPlans();
  SegmentPlans(const SegmentPlans&) = delete;
  SegmentPlans& operator=(const SegmentPlans&) = delete;
  std::vector<int64_t> get(const std::string& signature, const std::function<std::vector<int64_t>()>& make);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What goes through a chain of modules: its inputs, then each module's result.
template <class Inputs>
struct Carry {
  std::optional<Inputs> inputs;
  std::optional<at::Tensor> tensor;
  std::shared_ptr<torch::nn::AnyValue> other;  // a result that is no tensor

  void set(torch::nn::AnyValue value) {
    inputs.reset();
    if (auto* result = value.try_get<at::Tensor>()) {
      tensor = std::move(*result);
      other.reset();
    } else {
      tensor.reset();
      other = std::make_shared<torch::nn::AnyValue>(std::move(value));
    }
  }
};
template <class Inputs>
auto encore_fields(Carry<Inputs>& carry) {
  return std::tie(carry.inputs, carry.tensor, carry.other);
}
template <class Inputs>
auto encore_fields(const Carry<Inputs>& carry) {
  return std::tie(carry.inputs, carry.tensor, carry.other);
}

/// The modules of a Sequential, to be called from inside a graph: copies share the modules.
class ModuleChain {
 public:
  explicit ModuleChain(const torch::nn::SequentialImpl& modules)
      : modules_(std::make_shared<std::vector<torch::nn::AnyModule>>(modules.begin(), modules.end())) {}

  int64_t size() const { return static_cast<int64_t>(modules_->size()); }

  template <class Inputs>
  Carry<Inputs> operator()(int64_t begin, int64_t end, Carry<Inputs> carry) const {
    for (int64_t i = begin; i < end; ++i) {
      torch::nn::AnyModule& module = (*modules_)[static_cast<size_t>(i)];
      if (carry.inputs) {
        carry.set(std::apply([&](const auto&... each) { return module.any_forward(each...); }, *carry.inputs));
      } else if (carry.tensor) {
        carry.set(module.any_forward(*std::exchange(carry.tensor, std::nullopt)));
      } else {
        carry.set(module.any_forward(torch::nn::AnyValue(std::as_const(*carry.other))));
      }
    }
    return carry;
  }

  template <class Inputs>
  std::vector<LayerCost> measure(Carry<Inputs> carry, const std::vector<at::Tensor>& buffers) const {
    const auto cut = [&]() -> int64_t {
      for_each_tensor(carry, &cut_history, [] {});
      return carry.tensor ? static_cast<int64_t>(carry.tensor->nbytes()) : 0;
    };
    for_each_tensor(carry, &copy_input, [] {});
    return measure_layers(
        size(), [&](int64_t i) { carry = (*this)(i, i + 1, std::move(carry)); }, cut, buffers);
  }

 private:
  std::shared_ptr<std::vector<torch::nn::AnyModule>> modules_;
};

/// `run(begin, end, value)` runs layers begin to end - 1 on what the one before gave.
template <class Value, class Run>
Value run_segments(const std::vector<int64_t>& sizes, const SequentialOptions& options, Value value, const Run& run) {
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t end = begin + sizes[i];
    if (i + 1 == sizes.size() && !options.checkpoint_last) {
      return run(begin, end, std::move(value));
    }
    CheckpointOptions segment = options.checkpoint;
    segment.name = (segment.name.empty() ? "segment " : segment.name + " ") + std::to_string(i);
    value = checkpoint(
        std::move(segment), [run, begin, end](const Value& input) { return run(begin, end, input); }, value);
    begin = end;
  }
  return value;
}

/// Shapes and types of all tensors in the values.
template <class... Values>
std::string signature(const Values&... values) {
  std::string text;
  const auto add = [&](const at::Tensor& tensor) {
    text += tensor.defined() ? c10::toString(tensor.scalar_type()) : "undefined";
    for (const int64_t size : tensor.defined() ? tensor.sizes() : at::IntArrayRef()) {
      text += ',' + std::to_string(size);
    }
    text += ';';
  };
  (for_each_tensor(values, add, [] {}), ...);
  return text;
}

template <class ReturnType, class Inputs>
ReturnType result_of(const Carry<Inputs>& carry) {
  if constexpr (std::is_same_v<ReturnType, at::Tensor>) {
    if (carry.tensor) {
      return *carry.tensor;
    }
  } else if (carry.other && carry.other->template try_get<ReturnType>() != nullptr) {
    return *carry.other->template try_get<ReturnType>();
  }
  throw InvalidArgument("sequential: the last module returns another type than the one asked for");
}

}  // namespace detail

/// Functions from tensor to tensor, or modules of one kind, one after another in `segments` checkpointed segments.
template <class Function>
at::Tensor checkpoint_sequential(const SequentialOptions& options, const std::vector<Function>& functions,
                                 int64_t segments, const at::Tensor& input) {
  const auto layers = std::make_shared<std::vector<Function>>(functions);  // copies of module holders share the module
  const auto run = [layers](int64_t begin, int64_t end, at::Tensor value) {
    for (int64_t i = begin; i < end; ++i) {
      value = detail::call((*layers)[static_cast<size_t>(i)], value);
    }
    return value;
  };
  const auto num_layers = static_cast<int64_t>(functions.size());
  const auto measure = [&] {
    at::Tensor value = input;
    detail::copy_input(value);
    const auto cut = [&value] {
      detail::cut_history(value);
      return static_cast<int64_t>(value.nbytes());
    };
    return detail::measure_layers(num_layers, [&](int64_t i) { value = run(i, i + 1, std::move(value)); }, cut, {});
  };
  return detail::run_segments(detail::plan_segments(options.balance, num_layers, segments, measure), options, input,
                              run);
}
template <class Function>
at::Tensor checkpoint_sequential(const std::vector<Function>& functions, int64_t segments, const at::Tensor& input) {
  return checkpoint_sequential(SequentialOptions(), functions, segments, input);
}

/// Any torch::nn::Sequential; `segments` = 0 has it planned for the least peak, from a measurement at each call.
template <typename ReturnType = at::Tensor, typename... Inputs>
ReturnType checkpoint_sequential(const SequentialOptions& options, const torch::nn::Sequential& modules,
                                 int64_t segments, const Inputs&... inputs) {
  const detail::ModuleChain chain(*modules);
  const detail::Carry<std::tuple<Inputs...>> carry{std::make_tuple(inputs...), std::nullopt, nullptr};
  const auto sizes = detail::plan_segments(options.balance, chain.size(), segments,
                                           [&] { return chain.measure(carry, modules->buffers()); });
  return detail::result_of<ReturnType>(detail::run_segments(sizes, options, carry, chain));
}
template <typename ReturnType = at::Tensor, typename... Inputs>
ReturnType checkpoint_sequential(const torch::nn::Sequential& modules, int64_t segments, const Inputs&... inputs) {
  return checkpoint_sequential<ReturnType>(SequentialOptions(), modules, segments, inputs...);
}

/// A torch::nn::Sequential whose forward is checkpointed in segments. It holds the same modules under the same names:
/// parameters, buffers and saved files have the names they have without it.
class CheckpointedSequentialImpl : public torch::nn::SequentialImpl {
 public:
  CheckpointedSequentialImpl() = default;

  /// `segments` = 0: as many, and where, as give the least peak, measured at the first forward of each input signature.
  /// Otherwise balanced by options.balance, measured likewise.
  explicit CheckpointedSequentialImpl(const torch::nn::Sequential& modules, int64_t segments = 0,
                                      SequentialOptions options = {})
      : segments_(segments), options_(std::move(options)) {
    if (segments < 0) {
      throw InvalidArgument("CheckpointedSequential: " + std::to_string(segments) +
                            " segments; give a positive number, or 0 to have it planned");
    }
    const auto names = modules->named_children().keys();
    size_t next = 0;
    for (const torch::nn::AnyModule& module : *modules) {
      push_back(names[next++], module);
    }
  }

  std::shared_ptr<torch::nn::Module> clone(const c10::optional<torch::Device>& device = c10::nullopt) const override {
    auto copy = std::make_shared<CheckpointedSequentialImpl>();
    copy->segments_ = segments_;
    copy->options_ = options_;
    const auto names = named_children().keys();
    size_t next = 0;
    for (const torch::nn::AnyModule& module : *this) {
      copy->push_back(names[next++], module.clone(device));
    }
    copy->train(is_training());
    return copy;
  }

  void pretty_print(std::ostream& stream) const override { stream << "encore::CheckpointedSequential"; }

  template <typename ReturnType = at::Tensor, typename... Inputs>
  ReturnType forward(const Inputs&... inputs) {
    if (!c10::GradMode::is_enabled()) {
      return torch::nn::SequentialImpl::forward<ReturnType>(inputs...);
    }
    const detail::Carry<std::tuple<Inputs...>> carry{std::make_tuple(inputs...), std::nullopt, nullptr};
    return detail::result_of<ReturnType>(
        detail::run_segments(segment_sizes(inputs...), options_, carry, detail::ModuleChain(*this)));
  }

  /// The sizes of the segments that forward uses for such inputs.
  template <typename... Inputs>
  std::vector<int64_t> segment_sizes(const Inputs&... inputs) {
    return plans_->get(detail::signature(inputs...), [&] {
      const detail::ModuleChain chain(*this);
      const detail::Carry<std::tuple<Inputs...>> carry{std::make_tuple(inputs...), std::nullopt, nullptr};
      return detail::plan_segments(options_.balance, chain.size(), segments_,
                                   [&] { return chain.measure(carry, buffers()); });
    });
  }

 private:
  int64_t segments_ = 0;
  SequentialOptions options_;
  std::shared_ptr<detail::SegmentPlans> plans_ = std::make_shared<detail::SegmentPlans>();
};

TORCH_MODULE(CheckpointedSequential);

}  // namespace encore
