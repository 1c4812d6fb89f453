// Gradient checkpointing: run a function without keeping what its backward needs, and bring that back when asked.
//
// The first checkpoint of a process takes LibTorch's autograd engine slot; see <encore/scope.h>.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <encore/detail/tensors.h>
#include <encore/export.h>
#include <encore/policy.h>
#include <encore/recompute.h>
#include <encore/scope.h>

namespace encore::region {
struct RegionGroup;
}

namespace encore {

struct CheckpointOptions {
  std::string name;  ///< shows in paths, messages and reports
  Recompute recompute = Recompute::kReplay;
  /// Random ops draw the same numbers again. If false, kReplay keeps what random ops made, and kRerun refuses a
  /// function that draws any.
  bool preserve_rng_state = true;
  DeterminismCheck determinism_check = DeterminismCheck::kMetadata;
  /// kRerun: stop calling the function again as soon as all that is needed is there, by an exception that is no
  /// std::exception. Set it to false for a function in which noexcept code or destructors run differentiated ops.
  bool early_stop = true;
  /// kReplay: what to keep of the inside, for example keep_matmuls() | pack_masks(). kRerun keeps nothing.
  Policy policy = pack_masks();
};

namespace detail {

/// One call of a checkpointed function, from its start to its result.
class ENCORE_API CheckpointCall {
 public:
  using Again = std::function<void(const std::vector<at::Tensor>&)>;

  /// kReplay; `group` may be null.
  CheckpointCall(const CheckpointOptions& options, const std::shared_ptr<region::RegionGroup>& group);
  /// kRerun: `again` calls the function with other tensors in place of `inputs`.
  CheckpointCall(const CheckpointOptions& options, const std::vector<at::Tensor>& inputs, Again again);
  ~CheckpointCall();
  CheckpointCall(const CheckpointCall&) = delete;
  CheckpointCall& operator=(const CheckpointCall&) = delete;

  /// Throws InvalidArgument if nothing in the results could have a gradient.
  void finish(const Seen& results);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// False where nothing would be saved, so that the function just runs: gradients off, or inside a function called
/// again.
ENCORE_API bool is_worth_recording(const CheckpointOptions& options);
ENCORE_API void check_arguments(const CheckpointOptions& options, const std::vector<Seen>& arguments);

template <class F, class = void>
struct IsModuleHolder : std::false_type {};
template <class F>
struct IsModuleHolder<F, std::void_t<typename F::ContainedType, decltype(std::declval<const F&>().ptr())>>
    : std::true_type {};

template <class F, class... Args>
decltype(auto) call(F&& f, Args&&... args) {
  // A holder's own call operator gives void for modules whose forward is a template, such as Sequential.
  if constexpr (!IsModuleHolder<Bare<F>>::value && std::is_invocable_v<F, Args...>) {
    return std::invoke(std::forward<F>(f), std::forward<Args>(args)...);
  } else {
    return f->forward(std::forward<Args>(args)...);
  }
}

template <class F, class... Args>
auto rerunner(const F& f, const Args&... args) {
  auto stored = std::make_shared<std::tuple<F, std::tuple<std::decay_t<const Args>...>>>(f, std::make_tuple(args...));
  const auto ignore = [] {};
  // The inputs are held by the region that made them; here only their places.
  for_each_tensor(
      std::get<1>(*stored), [](at::Tensor& tensor) { tensor = at::Tensor(); }, ignore);
  return [stored, ignore](const std::vector<at::Tensor>& tensors) {
    auto arguments = std::get<1>(*stored);
    size_t next = 0;
    for_each_tensor(
        arguments, [&](at::Tensor& tensor) { tensor = tensors[next++]; }, ignore);
    std::apply([&](auto&... each) { static_cast<void>(call(std::get<0>(*stored), each...)); }, arguments);
  };
}

template <class F, class... Args>
decltype(auto) call_checkpointed(const CheckpointOptions& options, const std::shared_ptr<region::RegionGroup>& group,
                                 F& f, Args&&... args) {
  std::vector<Seen> seen(sizeof...(Args));
  size_t next = 0;
  (seen[next++].look(args), ...);
  check_arguments(options, seen);
  if (!is_worth_recording(options)) {
    return call(f, std::forward<Args>(args)...);
  }
  std::unique_ptr<CheckpointCall> checkpoint_call;
  if (options.recompute == Recompute::kReplay) {
    checkpoint_call = std::make_unique<CheckpointCall>(options, group);
  } else if constexpr (std::is_copy_constructible_v<F> && (std::is_copy_constructible_v<std::decay_t<Args>> && ...)) {
    std::vector<at::Tensor> inputs;
    (for_each_tensor(
         std::as_const(args), [&](const at::Tensor& tensor) { inputs.push_back(tensor); }, [] {}),
     ...);
    CheckpointOptions own = options;
    own.early_stop = own.early_stop && !std::is_nothrow_invocable_v<F&, Args...>;  // stopping is an exception
    checkpoint_call = std::make_unique<CheckpointCall>(own, inputs, rerunner<F>(f, args...));
  } else {
    checkpoint_call = std::make_unique<CheckpointCall>(options, std::vector<at::Tensor>(), nullptr);
  }
  if constexpr (std::is_void_v<decltype(call(f, std::forward<Args>(args)...))>) {
    call(f, std::forward<Args>(args)...);
    checkpoint_call->finish(Seen());
  } else {
    decltype(auto) result = call(f, std::forward<Args>(args)...);
    Seen results;
    results.look(result);
    checkpoint_call->finish(results);
    if constexpr (std::is_reference_v<decltype(result)>) {
      return static_cast<decltype(result)>(result);
    } else {
      return result;
    }
  }
}

}  // namespace detail

/// A function that is checkpointed each time it is called; it has the signature of the function it was made from.
/// Copies may be stored and called from several threads, as far as the function itself may be.
template <class F>
class Checkpointed {
 public:
  Checkpointed(CheckpointOptions options, F f) : options_(std::move(options)), f_(std::move(f)) {}

  template <class... Args, class = decltype(detail::call(std::declval<F&>(), std::declval<Args>()...))>
  decltype(auto) operator()(Args&&... args) const {
    return detail::call_checkpointed(options_, nullptr, f_, std::forward<Args>(args)...);
  }

 private:
  CheckpointOptions options_;
  mutable F f_;  // module holders are called through non-const operators
};

/// `checkpoint(options, f)`: f, checkpointed. `f` is a function, a functor, a module holder or a pointer to a module.
/// Parameters and tensors that f captures get their gradients too. Calling it with no argument, or with an undefined
/// tensor, throws InvalidArgument; so does a function whose result can't have a gradient. With gradients off it just
/// runs.
template <class F>
auto checkpoint(CheckpointOptions options, F&& f) {
  return Checkpointed<std::decay_t<F>>(std::move(options), std::forward<F>(f));
}

/// `checkpoint(options, f, args...)`: calls f, checkpointed, now.
template <class F, class Arg, class... Args>
decltype(auto) checkpoint(CheckpointOptions options, F&& f, Arg&& arg, Args&&... args) {
  return checkpoint(std::move(options), std::forward<F>(f))(std::forward<Arg>(arg), std::forward<Args>(args)...);
}

/// `checkpoint(f)`: f, checkpointed, with default options.
template <class F, class = std::enable_if_t<!std::is_base_of_v<at::Tensor, detail::Bare<F>> &&
                                            !std::is_convertible_v<F, CheckpointOptions>>>
auto checkpoint(F&& f) {
  return checkpoint(CheckpointOptions(), std::forward<F>(f));
}

/// `checkpoint(f, args...)`: calls f, checkpointed, now.
template <class F, class Arg, class... Args,
          class = std::enable_if_t<!std::is_same_v<detail::Bare<F>, CheckpointOptions>>>
decltype(auto) checkpoint(F&& f, Arg&& arg, Args&&... args) {
  return checkpoint(CheckpointOptions(), std::forward<F>(f))(std::forward<Arg>(arg), std::forward<Args>(args)...);
}

/// `checkpoint_segment(inputs, f)`: calls f with the inputs, checkpointed, now. `inputs` is any container of tensors,
/// as std::array or std::vector, and reaches f as it is; a braced list reaches it as a std::vector.
template <class Inputs, class F>
decltype(auto) checkpoint_segment(const Inputs& inputs, F&& f) {
  return checkpoint(std::forward<F>(f), inputs);
}
template <class F>
decltype(auto) checkpoint_segment(std::initializer_list<at::Tensor> inputs, F&& f) {
  return checkpoint(std::forward<F>(f), std::vector<at::Tensor>(inputs));
}

/// Checkpoints that are recomputed together, once: the first value that backward asks of any of them brings back what
/// is missing of all. For functions that belong to one step and are needed at about the same time, such as the heads of
/// one network. Copies are the same group. Threads may share a group; what another thread is busy bringing back is not
/// waited for.
class ENCORE_API CheckpointGroup {
 public:
  /// The options are those of each function. Throws InvalidArgument for kRerun: only recorded ops can be run together.
  explicit CheckpointGroup(CheckpointOptions options = {});

  /// Calls f with the inputs, checkpointed, now. Results are f's own: one tensor, several in a tuple, containers.
  template <class F, class... Inputs>
  decltype(auto) checkpoint(F&& f, Inputs&&... inputs) const {
    return detail::call_checkpointed(options_, group_, f, std::forward<Inputs>(inputs)...);
  }

 private:
  CheckpointOptions options_;
  std::shared_ptr<region::RegionGroup> group_;
};

}  // namespace encore
