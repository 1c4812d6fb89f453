// One text for each enum of the planner, in its formats and for people.
#pragma once

#include <array>

#include <encore/plan/planner.h>
#include <encore/plan/schedule.h>

namespace encore::plan {

inline const char* name_of(Proof proof) {
  return proof == Proof::kExact ? "exact" : "bound";
}

inline constexpr std::array kOpKinds = {OpKind::kCompute, OpKind::kDrop, OpKind::kEncode, OpKind::kDecode};

inline const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kCompute:
      return "compute";
    case OpKind::kDrop:
      return "drop";
    case OpKind::kEncode:
      return "encode";
    case OpKind::kDecode:
      return "decode";
  }
  return "";
}

}  // namespace encore::plan
