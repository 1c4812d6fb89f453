// An observer that looks at generators only.
#include "record/generators.h"

#include "record/thread.h"

namespace encore::record {

GeneratorWatch::GeneratorWatch()
    : outer_(this_thread().watch),
      handle_(Observer::put_on(at::RecordFunctionCallback(&GeneratorWatch::on_start)
                                   .needsInputs(true)
                                   .scopes({at::RecordScope::FUNCTION}))) {
  this_thread().watch = this;
}

GeneratorWatch::~GeneratorWatch() {
  this_thread().watch = outer_;
  Observer::take_off(handle_);
}

std::unique_ptr<at::ObserverContext> GeneratorWatch::on_start(const at::RecordFunction& call) {
  for (const c10::IValue& input : call.inputs()) {
    if (!input.isGenerator()) {
      continue;
    }
    for (GeneratorWatch* watch = this_thread().watch; watch != nullptr; watch = watch->outer_) {
      watch->note(input.toGenerator());
    }
  }
  return nullptr;
}

void GeneratorWatch::note(const at::Generator& generator) {
  const bool known = generator == at::detail::getDefaultCPUGenerator() ||
                     std::any_of(seen_.begin(), seen_.end(),
                                 [&](const tape::RandomState& state) { return state.generator() == generator; });
  if (!known && generator.device().is_cpu()) {
    seen_.emplace_back(generator);
  }
}

std::vector<tape::RandomState> GeneratorWatch::take() {
  std::vector<tape::RandomState> taken = std::exchange(seen_, {});
  const auto gone = [](const tape::RandomState& state) { return state.generator().getIntrusivePtr().use_count() == 1; };
  taken.erase(std::remove_if(taken.begin(), taken.end(), gone), taken.end());
  return taken;
}

}  // namespace encore::record
