// A schedule: the order in which values are computed, dropped and brought into smaller forms and back.
#pragma once

#include <cstdint>
#include <vector>

namespace encore::plan {

enum class OpKind : uint8_t {
  kCompute,  ///< Runs the step; its inputs must be resident, its value absent.
  kDrop,     ///< Frees the value, in whatever form it rests.
  kEncode,   ///< Turns the resident value into one of its variants.
  kDecode,   ///< Turns the variant back into the value.
};

struct Op {
  OpKind kind = OpKind::kCompute;
  int32_t step = 0;
  int32_t variant = 0;  ///< Which variant of the step; only for kEncode.

  friend bool operator==(const Op& a, const Op& b) {
    return a.kind == b.kind && a.step == b.step && a.variant == b.variant;
  }
};

using Schedule = std::vector<Op>;

}  // namespace encore::plan
