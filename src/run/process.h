// What the operating system says this process takes.
#pragma once

#include <cstdint>

#include <encore/export.h>

namespace encore::run {

/// Resident bytes now, 0 where the system does not say.
int64_t process_bytes();

/// The most that was ever resident since the process began, as `time -v` prints it.
int64_t process_peak_bytes();

}  // namespace encore::run
