// Watches from which generators the ops of one thread draw.
#pragma once

#include "tape/random.h"

namespace encore::record {

/// Watches its thread while it lives. The default generator is not its concern: everybody knows that one.
class GeneratorWatch {
 public:
  GeneratorWatch();
  ~GeneratorWatch();
  GeneratorWatch(const GeneratorWatch&) = delete;
  GeneratorWatch& operator=(const GeneratorWatch&) = delete;

  /// The generators that ops were given since the last call, each as it was before the first of them. Not those that
  /// are gone since: nobody can draw from them again.
  std::vector<tape::RandomState> take();

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& call);
  void note(const at::Generator& generator);

  std::vector<tape::RandomState> seen_;
  GeneratorWatch* outer_;
  at::CallbackHandle handle_;
};

}  // namespace encore::record
