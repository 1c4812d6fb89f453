// Live and peak bytes of tensors in this process, exact.
//
// CPU bytes are counted at the allocator: every byte that a CPU tensor's storage asks for, by any thread. The process's
// CPU allocator slot is taken when the library is loaded, before main(), for the rest of the process, so whatever a
// program makes is counted. Tensors over memory that no allocator of LibTorch's made (from_blob) are not; nor is what
// libraries take for themselves (BLAS, oneDNN scratch, thread pools). Where somebody else holds the slot, all of this
// throws SlotError.
#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Device.h>

#include <encore/export.h>

namespace encore {

/// Bytes of all live tensors on `device`. For devices other than the CPU: what LibTorch's own statistics say.
/// Throws SlotError if the allocator slot belongs to somebody else, or LibTorch keeps no statistics for the device.
/// Any thread may call.
ENCORE_API int64_t live_tensor_bytes(c10::Device device = c10::Device(c10::kCPU));

/// The most that live_tensor_bytes() has been since the first call, or the last reset.
ENCORE_API int64_t peak_tensor_bytes(c10::Device device = c10::Device(c10::kCPU));

/// Starts the peak of peak_tensor_bytes() anew from what is live now. Scopes are not touched.
ENCORE_API void reset_peak_tensor_bytes(c10::Device device = c10::Device(c10::kCPU));

/// Measures the peak of CPU tensor bytes of what runs while it lives, on all threads. Scopes may nest and overlap.
class ENCORE_API MemoryScope {
 public:
  MemoryScope();
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// Live bytes when the scope began.
  int64_t start_bytes() const;
  /// The most that was live at once since then.
  int64_t peak_bytes() const;
  /// The peak above the start.
  int64_t peak_growth_bytes() const { return peak_bytes() - start_bytes(); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// While one lives, CPU blocks of 32 KiB and more lie in mappings of their own; freed ones are held, joined and cut,
/// and given out again instead of going back to the system, which makes training faster: fresh pages cost more than
/// many an op. Held blocks and live bytes together never exceed the most that was live at once since the first of these
/// scopes began (or a memory budget's limit), so the process grows no larger than it would have been at its peak.
/// Scopes may nest and overlap, on all threads; with the last one the blocks go back.
class ENCORE_API BlockReuse {
 public:
  BlockReuse();
  ~BlockReuse();
  BlockReuse(const BlockReuse&) = delete;
  BlockReuse& operator=(const BlockReuse&) = delete;

  /// Bytes of free blocks that are held now.
  static int64_t held_bytes();
};

}  // namespace encore
