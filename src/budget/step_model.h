// A recorded training step as a planning problem, free of the tape that it was recorded on.
#pragma once

#include <encore/plan/graph.h>

#include "budget/journal.h"
#include "tape/compat.h"

namespace encore::budget {

/// Values that are made, dropped and brought back together: what one op makes, with the in-place ops after it.
struct Unit {
  std::vector<tape::ValueId> values;       // as they are when the unit is complete
  std::string name;                        // the op that made them
  std::string module;                      // the module it belongs to, if known
  int32_t user_holds_until = tape::kNone;  // the step until which the user's own code holds some of them
};

/// Steps of the graph are units, ops that only make room for one, and nodes of backward; events without any of these
/// are part of the step before.
struct StepModel {
  std::vector<uint64_t> path;          // by event
  std::vector<int32_t> step_of_event;  // rising
  std::vector<bool> backward;          // by event: whether it is a node
  uint64_t asked = 0;                  // the sum of the tokens of all that nodes asked for
  plan::Graph graph;                   // its backgrounds are left at 0
  std::vector<Unit> units;             // by step; no values where the step makes none
  /// By step: kOther above what it was when the training step began.
  std::vector<int64_t> background;
  /// By step: bytes that were there when the training step ended, of kOther, and of what the step itself makes:
  /// gradients when they are first made, the state of an optimizer. From the next training step on they rest.
  struct Born {
    int64_t other_bytes = 0;
    int64_t value_bytes = 0;
    int64_t gradient_bytes = 0;  // of the other bytes, by nodes of a backward
  };
  std::vector<Born> born;
  int64_t resting_bytes = 0;  // when the training step began
  /// Whether the first gradients are expected to be let go in the next training step rather than added to.
  bool gradients_go = compat::kZeroGradLetsGo;
  std::vector<int32_t> backward_steps;
  std::string largest;  // the op that needs most while it runs, with its inputs

  uint64_t signature() const { return path.empty() ? 0 : path.back(); }
  /// What the training step left to rest.
  int64_t born_bytes() const;
  /// Of what is born, by nodes of a backward.
  int64_t gradient_bytes() const;
  /// The graph with the backgrounds of a training step that begins with so many live bytes. What rests more than before
  /// the measured one was born in that: it does not come anew.
  plan::Graph graph_for(int64_t resting) const;
};

/// The tape's lock is held. `modules` by op, or empty.
StepModel build_model(const store::Residency& residency, const Journal& journal, int64_t resting_bytes,
                      const std::vector<std::string>& modules);

}  // namespace encore::budget
