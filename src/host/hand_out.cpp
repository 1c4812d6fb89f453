// Bytes that leave LibTorch: who has them writes to them without an op or a version counter showing it.
#include "host/host.h"
#include "record/recorder.h"
#include "store/residency.h"

namespace encore::host {

void hand_out(const at::Tensor& tensor) {
  const record::Recorder* recorder = record::Recorder::current();
  // A function that is called again hands them out again.
  if (recorder == nullptr || record::Recorder::is_paused() || recorder->called_again() != nullptr) {
    return;
  }
  store::Residency& residency = *recorder->residency();
  const tape::Tape& tape = residency.tape();
  const std::lock_guard<RecursiveMutex> lock(tape.mutex());
  const tape::ValueId value = tape.find(tensor);
  if (value == tape::kNone || tape.value(value).source) {
    return;  // not made here: compared with what it was wherever it is read
  }
  residency.hand_out(value, tensor);
  // What autograd has saved of it is read as it is when backward runs.
  const auto hold = [&](const at::Tensor& saved) {
    return record::keep_plainly(saved, {record::version_of(saved), tape.shared_name(), std::nullopt});
  };
  for (store::Holding* holding : residency.holdings_of(value)) {
    holding->overwritten_unseen(hold);
  }
}

}  // namespace encore::host
