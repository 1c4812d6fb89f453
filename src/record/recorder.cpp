// The observer: from LibTorch's record functions to the tape.
#include "record/recorder.h"

#include <exception>

#include "base/clock.h"
#include "base/spare.h"
#include "record/saving_hooks.h"
#include "record/thread.h"
#include "tape/compat.h"

namespace encore::record {
namespace {

std::atomic<uint64_t> g_recorders{0};
std::atomic<int64_t> g_compiled_regions{0};

/// What torch.compile has made of a function: kernels that no dispatcher sees, into buffers that ops reuse.
bool is_compiled_region(const at::RecordFunction& call) {
  constexpr std::string_view kName = "Torch-Compiled Region";
  return std::string_view(call.name()).substr(0, kName.size()) == kName;
}

/// Marks a call as seen by one recorder: calls that started while paused, or under another, end unseen.
struct SeenBy final : at::ObserverContext, Spared<SeenBy> {
  explicit SeenBy(uint64_t recorder) : serial(recorder) {}
  uint64_t serial;
};

/// The last `count` values of a boxed call: script code leaves its own below them.
c10::ArrayRef<const c10::IValue> last(const c10::IValue* values, size_t size, size_t count) {
  return c10::ArrayRef<const c10::IValue>(values + (size > count ? size - count : 0), std::min(size, count));
}

/// Whether autograd knows nothing of the argument of detach_, so that it changes nothing.
bool is_detached(c10::ArrayRef<const c10::IValue> args) {
  return args.size() == 1 && args[0].isTensor() && args[0].toTensor().defined() &&
         !args[0].toTensor().requires_grad() && !args[0].toTensor()._fw_grad(/*level=*/0).defined();
}

}  // namespace

int64_t compiled_regions() {
  return g_compiled_regions;
}

/// Saved while its op runs: whether it is an argument, a result or neither shows when the op ends.
class Recorder::DeferredSave final : public Saved {
 public:
  explicit DeferredSave(const at::Tensor& tensor)
      : tensor_(tape::detached_alias(tensor)), version_(version_of(tensor)) {}
  at::Tensor get() override { return resolved_ ? resolved_->get() : tensor_; }

  const at::Tensor& tensor() const { return tensor_; }
  int64_t version() const { return version_; }
  void resolve(std::shared_ptr<Saved> saved) {
    resolved_ = std::move(saved);
    tensor_ = at::Tensor();
  }

 private:
  at::Tensor tensor_;
  int64_t version_;
  std::shared_ptr<Saved> resolved_;
};

struct Recorder::Flight {
  const tape::OpInfo* info = nullptr;  // null for a call that is looked through
  Flight* outer = nullptr;             // the recorded op around it
  tape::PendingOp pending;
  std::vector<std::shared_ptr<DeferredSave>> saves;
  std::vector<std::shared_ptr<DeferredSave>> saves_next;  // in an opaque region
  std::shared_ptr<tape::RandomState> random;
  tape::RandomLock random_lock;
  std::optional<Pause> opaque;  // what runs inside can't be recorded
  int exceptions = 0;

  void clear() {
    info = nullptr;
    outer = nullptr;
    pending.clear();
    saves.clear();
    saves_next.clear();
    random.reset();
    random_lock = {};
  }
};

/// Calls nest, so those that have ended leave their memory to those that begin.
Recorder::Flight& Recorder::take_off() {
  if (num_flights_ == flights_.size()) {
    flights_.push_back(std::make_unique<Flight>());
  }
  return *flights_[num_flights_++];
}

at::RecordFunctionCallback Recorder::callback() {
  return at::RecordFunctionCallback(&Recorder::on_start, &Recorder::on_end)
      .needsInputs(true)
      .needsOutputs(true)
      .scopes({at::RecordScope::FUNCTION});
}

Recorder::Recorder(std::shared_ptr<store::Residency> residency)
    : serial_(++g_recorders),
      residency_(std::move(residency)),
      tape_(residency_->tape()),
      writer_(*residency_),
      outer_(this_thread().recorder) {
  this_thread().observer.add(callback());
  this_thread().recorder = this;
}

Recorder::~Recorder() {
  uninstall();
}

void Recorder::rethrow_failure() {
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

// LibTorch logs and swallows exceptions out of observers, so they are kept here and thrown at the next safe place.
std::unique_ptr<at::ObserverContext> Recorder::on_start(const at::RecordFunction& call) {
  Recorder* recorder = is_paused() ? nullptr : current();
  if (recorder == nullptr) {
    return nullptr;
  }
  const Pause own_ops_go_unseen;
  try {
    recorder->start(call);
  } catch (...) {
    recorder->failure_ = std::current_exception();
  }
  return std::make_unique<SeenBy>(recorder->serial_);
}

void Recorder::on_end(const at::RecordFunction& call, at::ObserverContext* context) {
  Recorder* recorder = this_thread().recorder;
  if (context == nullptr || recorder == nullptr || static_cast<SeenBy*>(context)->serial != recorder->serial_) {
    return;
  }
  const Pause own_ops_go_unseen;
  try {
    recorder->end(call);
  } catch (...) {
    recorder->failure_ = std::current_exception();
  }
}

bool Recorder::is_recorded(const tape::OpInfo& info) const {
  if (info.composite) {
    return false;
  }
  const bool will_autocast = info.autocasts && compat::autocast_on_cpu() &&
                             !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  if (will_autocast) {
    return false;
  }
  // Inside a recorded op, autograd's in-place kernels clone what they overwrite and save the clone.
  return recorded_ == nullptr || (recorded_->outer == nullptr && info.is_clone && is_right_inside(*recorded_) &&
                                  !recorded_->info->writes.empty());
}

/// Whether the call that begins is one of the op's own, with no other in between.
bool Recorder::is_right_inside(const Flight& flight) const {
  return num_flights_ >= 2 && flights_[num_flights_ - 2].get() == &flight;
}

void Recorder::start(const at::RecordFunction& call) {
  Flight& flight = take_off();
  const tape::OpInfo* info = tape::OpInfo::find(call);
  if (info == nullptr) {
    if (is_compiled_region(call)) {
      ++g_compiled_regions;
      flight.opaque.emplace();
    }
    return;
  }
  if (!is_recorded(*info)) {
    if (recorded_ != nullptr && info->bumps_versions && !info->writes.empty()) {
      note_nested_writes(*info, call);
    }
    return;
  }
  const auto args = last(call.inputs().data(), call.inputs().size(), info->num_args);
  if (info->is_detach && is_detached(args)) {
    return;  // zero_grad() does so to gradients: the step is the same whether there were any
  }
  if (recorded_ == nullptr) {
    tell(&Subscriber::op_comes, *this, static_cast<tape::OpId>(tape_.ops().size()));
  }
  const tape::OpId watched_from = called_again_ == nullptr ? tape::kNone : called_again_->first();
  {
    const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
    writer_.begin(flight.pending, *info, args, watched_from);
    try {
      for (const tape::ValueId before : flight.pending.written_before) {
        tell_overwritten_unseen(before);
      }
      enter_regions(flight.pending, args);
      tell(&Subscriber::op_begins, flight.pending);
    } catch (...) {
      writer_.abort(flight.pending);
      throw;
    }
  }
  flight.info = info;  // from here on it lands, whatever is thrown
  flight.exceptions = std::uncaught_exceptions();
  flight.outer = std::exchange(recorded_, &flight);
  // Replay takes the tape's lock and then this one, so here they are never held together.
  if (info->may_draw) {
    flight.random_lock = tape::lock_random_ops();
  }
  // ATen says which of its ops draw. To look at the generator after each op would call those random, too, during
  // which another thread drew.
  if (info->may_draw || info->undeclared_draw) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    for (const c10::IValue& arg : args) {
      if (arg.isGenerator()) {
        generator = arg.toGenerator();
      }
    }
    if (generator.device().is_cpu()) {
      flight.random = std::make_shared<tape::RandomState>(std::move(generator));
    }
  }
  flight.pending.start_ns = now_ns();
}

/// An operator of the user's may change its arguments by any number of ops.
void Recorder::note_nested_writes(const tape::OpInfo& info, const at::RecordFunction& call) {
  const auto args = last(call.inputs().data(), call.inputs().size(), info.num_args);
  if (recorded_->pending.writes.empty() || args.size() < info.num_args) {
    return;
  }
  for (const size_t written : info.writes) {
    if (args[written].isTensor()) {
      writer_.nested_write(recorded_->pending, args[written].toTensor());
    }
  }
}

void Recorder::end(const at::RecordFunction& call) {
  if (num_flights_ == 0) {
    return;
  }
  Flight& flight = *flights_[--num_flights_];
  flight.opaque.reset();
  if (flight.info == nullptr) {
    return;
  }
  struct Landed {  // whatever is thrown
    Flight& flight;
    ~Landed() { flight.clear(); }
  } const landed{flight};
  recorded_ = flight.outer;
  finish(flight, call);
  for (const auto& save : flight.saves_next) {
    save->resolve(called_again_->save_next(save->tensor(), flight.info));
  }
}

void Recorder::finish(Flight& flight, const at::RecordFunction& call) {
  tape::PendingOp& pending = flight.pending;
  pending.duration_ns = now_ns() - pending.start_ns;
  const bool drew = flight.random != nullptr && flight.random->moved_on();
  flight.random_lock = {};
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  const bool threw = std::uncaught_exceptions() > flight.exceptions || call.outputs().size() < flight.info->num_returns;
  if (threw) {
    writer_.abort(pending);
    return;
  }
  pending.opaque = pending.opaque || (flight.info->may_draw && flight.random == nullptr) || called_again_ != nullptr;
  // The clone of what an in-place op is about to overwrite: if that came from outside, the clone is all that is left of
  // it.
  pending.opaque = pending.opaque || (flight.outer != nullptr &&
                                      std::any_of(pending.tensors.begin(), pending.tensors.end(),
                                                  [&](const auto& arg) { return residency_->is_constant(arg.value); }));
  if (drew) {
    pending.opaque = pending.opaque || std::any_of(regions_.begin(), regions_.end(),
                                                   [](const auto& region) { return !region->replays_random_ops(); });
    pending.random = std::move(flight.random);
  }
  const auto& writes = pending.writes;
  const auto& stack = call.outputs();
  const auto outputs = last(stack.data(), stack.size(), flight.info->num_returns);
  const tape::OpId id = writer_.end(pending, outputs);

  if (!writes.empty()) {
    tell_overwritten(id, writes, outputs);
  }
  for (const auto& save : flight.saves) {
    tape::ValueId value = tape_.find(save->tensor());
    // Saved before the op wrote to it: the older version is meant, unless the write is one that autograd never notices.
    for (const auto& write : writes) {
      if (value != tape::kNone && tape_.value(value).storage == write.storage && tape_.value(value).producer == id &&
          !write.state && save->version() <= write.version_before) {
        value = write.before;
      }
    }
    save->resolve(save_value(value, save->tensor(), save->version()));
  }
  tell(&Subscriber::op_ended, id);
}

std::shared_ptr<Saved> Recorder::save(const at::Tensor& tensor) {
  rethrow_failure();
  const Pause own_ops_go_unseen;
  // An op that may draw holds the random lock: no other may be taken.
  const bool no_locks = recorded_ != nullptr && recorded_->info->may_draw;
  const auto defer = [&](std::vector<std::shared_ptr<DeferredSave>>& saves) {
    saves.push_back(std::make_shared<DeferredSave>(tensor));
    return saves.back();
  };
  // Called again, a function saves as many tensors, but not all need come from the same place: autocast may have cast a
  // weight before the first call and casts it inside the second. So every tensor counts there.
  if (called_again_ != nullptr) {
    if (no_locks) {
      return defer(recorded_->saves_next);
    }
    return called_again_->save_next(tensor, recorded_ == nullptr ? nullptr : recorded_->info);
  }
  if (no_locks) {
    return defer(recorded_->saves);
  }
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  const tape::ValueId value = tape_.find(tensor);
  if (recorded_ != nullptr && !is_settled(*recorded_, value)) {
    return defer(recorded_->saves);
  }
  return save_value(value, tensor, version_of(tensor));
}

/// True if the op in flight will not change what the tape knows of the value.
bool Recorder::is_settled(const Flight& flight, tape::ValueId value) const {
  return value != tape::kNone &&
         std::none_of(flight.pending.writes.begin(), flight.pending.writes.end(),
                      [&](const auto& write) { return write.storage == tape_.value(value).storage; });
}

std::shared_ptr<Saved> Recorder::save_for_region(const at::Tensor& tensor, bool as_it_is) {
  const Pause own_ops_go_unseen;
  const std::lock_guard<RecursiveMutex> lock(tape_.mutex());
  const tape::ValueId value = tape_.find(tensor);
  const bool can_be_had_again = value != tape::kNone && !residency_->is_constant(value);
  if (!can_be_had_again) {
    return nullptr;
  }
  auto saved = save_value(value, tensor, version_of(tensor));
  if (as_it_is) {
    saved->needs_whole_storage();
  }
  return saved;
}

}  // namespace encore::record
