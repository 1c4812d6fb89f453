// One text for each mode of a step.
#pragma once

#include <encore/budget.h>

namespace encore::budget {

inline const char* name_of(StepMode mode) {
  switch (mode) {
    case StepMode::kLearning:
      return "learning";
    case StepMode::kOnline:
      return "online";
    case StepMode::kPlanned:
      return "planned";
  }
  return "";
}

}  // namespace encore::budget
