// From autograd's saved-tensor hooks to the recorder of the thread.
#include "record/saving_hooks.h"

#include "record/backward.h"
#include "tape/compat.h"

namespace encore::record {
namespace {

std::atomic<Rethrow> g_rethrow{nullptr};

/// Not for exceptions of others: what the user's own code throws inside a hook arrives as it is.
template <class F>
auto translating(const F& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (const Rethrow rethrow = g_rethrow.load()) {
      rethrow(error);
    }
    throw;
  }
}

class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Hooks(Recorder& recorder) : recorder_(recorder) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    saved_ = translating([&] { return recorder_.save(tensor); });
  }
  at::Tensor call_unpack_hook() override {
    return translating([&] {
      notice_backward();
      return saved_->get();
    });
  }
#if ENCORE_TORCH_AT_LEAST(2, 7)
  /// Compiled autograd puts the hooks of Python into its graph; without any, it asks for the tensor when it begins.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data() const override {
    return std::nullopt;
  }
#endif

 private:
  Recorder& recorder_;  // used at once, in the pack hook only
  std::shared_ptr<Saved> saved_;
};

}  // namespace

std::unique_ptr<torch::autograd::SavedVariableHooks> saving_hooks() {
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr || Recorder::is_paused() || recorder->regions().empty()) {
    return nullptr;
  }
  const compat::UserHooks hooks = compat::user_hooks();
  if (hooks.forbidden || hooks.depth > recorder->regions().back()->hooks_depth()) {
    return nullptr;
  }
  return std::make_unique<Hooks>(*recorder);
}

void set_rethrow(Rethrow rethrow) {
  g_rethrow.store(rethrow);
}

}  // namespace encore::record
