// Byte counts as people write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <encore/export.h>

namespace encore {

/// "512MiB", "2 GB", "1.5GiB", "4096" -> bytes. Units: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (of
/// 1024). Throws InvalidArgument, naming the text, for anything else, for negative counts and for more than 2^63 - 1
/// bytes.
ENCORE_API int64_t parse_bytes(std::string_view text);

/// 1536 -> "1.5 KiB"; below 1024 -> "1023 B".
ENCORE_API std::string format_bytes(int64_t bytes);

}  // namespace encore
