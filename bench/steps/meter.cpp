// Encore's byte counts for a process in another language: what the Python side of the benchmark is measured with.
#include <encore/memory.h>

extern "C" {

ENCORE_API void encore_meter_install() {
  encore::live_tensor_bytes();
}

ENCORE_API int64_t encore_meter_live() {
  return encore::live_tensor_bytes();
}

ENCORE_API int64_t encore_meter_peak() {
  return encore::peak_tensor_bytes();
}

ENCORE_API void encore_meter_reset() {
  encore::reset_peak_tensor_bytes();
}
}
