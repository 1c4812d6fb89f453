// Copies made when a step begins. The generator's is LibTorch's own form of it: what the tape has for that is hidden
// inside libencore.so.
#include "dist/step_then.h"

#include <cstring>

#include <ATen/Functions.h>

namespace encore::dist {

StepThen::StepThen(const std::vector<at::Tensor>& buffers) {
  auto generator = at::detail::getDefaultCPUGenerator();
  {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const at::Tensor state = generator.get_state();
    const auto* from = static_cast<const char*>(state.data_ptr());
    generator_.assign(from, from + state.nbytes());
  }
  size_t bytes = 0;
  for (const at::Tensor& buffer : buffers) {
    bytes += buffer.nbytes();
  }
  for (const at::Tensor& buffer : buffers) {
    if (bytes <= kMostBytes && buffer.is_non_overlapping_and_dense() && buffer.nbytes() > 0) {
      const auto* from = static_cast<const char*>(buffer.data_ptr());
      copies_.push_back({buffer, {from, from + buffer.nbytes()}});
    }
  }
}

void StepThen::put_back() noexcept {
  try {
    auto generator = at::detail::getDefaultCPUGenerator();
    {
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.set_state(at::from_blob(generator_.data(), {static_cast<int64_t>(generator_.size())}, at::kByte));
    }
    for (const Copy& copy : copies_) {
      if (std::memcmp(copy.tensor.data_ptr(), copy.bytes.data(), copy.bytes.size()) != 0) {
        std::memcpy(copy.tensor.data_ptr(), copy.bytes.data(), copy.bytes.size());
        copy.tensor.unsafeGetTensorImpl()->bump_version();
      }
    }
  } catch (...) {
    // The state was taken from where it is put back.
  }
}

}  // namespace encore::dist
