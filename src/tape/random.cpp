// Generator states as plain data, outside the tensor allocator.
#include "tape/random.h"

#include <algorithm>
#include <cstring>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace encore::tape {
namespace {

at::CPUGeneratorImpl* impl_of(const at::Generator& generator) {
  return at::check_generator<at::CPUGeneratorImpl>(generator);
}

}  // namespace

RandomState::RandomState(at::Generator generator) : generator_(std::move(generator)) {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  at::CPUGeneratorImpl* impl = impl_of(generator_);
  engine_ = impl->engine().data();
  next_float_ = impl->next_float_normal_sample();
  next_double_ = impl->next_double_normal_sample();
}

bool RandomState::operator==(const RandomState& other) const {
  return engine_.left_ == other.engine_.left_ && engine_.next_ == other.engine_.next_ &&
         engine_.seed_ == other.engine_.seed_ && engine_.state_ == other.engine_.state_ &&
         next_float_ == other.next_float_ && next_double_ == other.next_double_;
}

void RandomState::restore() const {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  at::CPUGeneratorImpl* impl = impl_of(generator_);
  at::mt19937 engine;
  engine.set_data(engine_);
  impl->set_engine(engine);
  impl->set_next_float_normal_sample(next_float_);
  impl->set_next_double_normal_sample(next_double_);
}

bool has_generator() {
#ifdef __GLIBC__
  // Asking a std::mutex is not allowed to the thread that has it.
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const volatile int& owner = generator.mutex().native_handle()->__data.__owner;
  return owner == static_cast<int>(syscall(SYS_gettid));
#else
  return false;
#endif
}

GeneratorsThen::~GeneratorsThen() {
  for (auto state = before_.rbegin(); state != before_.rend(); ++state) {
    state->restore();
  }
}

void GeneratorsThen::lock() {
  if (!lock_.owns_lock()) {
    lock_ = lock_random_ops();
  }
}

void GeneratorsThen::enter(const RandomState& then) {
  lock();
  if (!knows(then.generator())) {
    before_.emplace_back(then.generator());
  }
  then.restore();
}

void GeneratorsThen::ends_in(const RandomState& now) {
  lock();
  before_.push_back(now);
}

bool GeneratorsThen::knows(const at::Generator& generator) const {
  return std::any_of(before_.begin(), before_.end(),
                     [&](const RandomState& state) { return state.generator() == generator; });
}

RandomLock lock_random_ops() {
  static auto* mutex = new RecursiveMutex;
  return RandomLock(*mutex);
}

}  // namespace encore::tape
