// A run with something in every field, for the tests of its forms.
#pragma once

#include "report/run.h"

namespace encore::report {

constexpr const char* kHostile = "<script>alert(1)</script>";

inline Run sample_run() {
  constexpr int64_t kMiB = 1 << 20;
  Run run;
  run.name = "gpt";
  run.limit_bytes = 512 * kMiB;
  run.resting_bytes = 150 * kMiB;
  run.process_bytes = 700 * kMiB;
  run.shown_step = 1;
  run.backward_begins_seconds = 0.25;
  RunStep first;
  first.index = 0;
  first.signature = "float[8]";
  first.mode = "online";
  first.measured_peak_bytes = 500 * kMiB;
  first.plain_peak_bytes = 800 * kMiB;
  first.step_seconds = 0.5;
  first.planning_seconds = 0.125;
  RunStep second = first;
  second.index = 1;
  second.mode = "planned";
  second.predicted_peak_bytes = 400 * kMiB;
  second.measured_peak_bytes = 404 * kMiB;
  second.replay_seconds = 0.0625;
  second.planning_seconds = 0;
  second.ops_replayed = 12;
  second.values_kept = 3;
  second.values_dropped = 4;
  second.loss = 1.5;
  RunStep third;
  third.index = 2;
  third.mode = "refused";
  third.message = "needs at least 612 MiB";
  run.steps = {first, second, third};
  run.timelines = {{"plain", {{0, 150 * kMiB}, {0.2, 800 * kMiB}, {0.4, 150 * kMiB}}},
                   {"planned", {{0, 150 * kMiB}, {0.25, 400 * kMiB}, {0.5, 150 * kMiB}}},
                   {"measured", {{0, 150 * kMiB}, {0.25, 404 * kMiB}, {0.5, 150 * kMiB}}}};
  run.curve = {{{300 * kMiB, 0.7}, {400 * kMiB, 0.5}, {800 * kMiB, 0.4}}, 1};
  run.values = {{"relu_1", "blocks.0", 4096, "kept", "small", 0.001},
                {"linear_2", "blocks.1", 8 * kMiB, "recomputed", "cheap for its size", kUnknown}};
  run.peak = {"aten::mm",
              0.25,
              {{"aten::gelu", "blocks.0.mlp", 100 * kMiB, "kept"},
               {"aten::gelu", "blocks.0.mlp", 50 * kMiB, "kept"},
               {"aten::mm", "blocks.1.attention.out", 100 * kMiB, "scratch"},
               {"tensors", "", 150 * kMiB, "outside"}}};
  run.systems = {{"plain", 800 * kMiB, 0.4, true}, {"half", 420 * kMiB, 0.41, false}};
  run.events = {{"aten::mm", "forward", 10, 20.5, 0}, {"aten::mm", "replay", 300000, 25, 7}};
  return run;
}

}  // namespace encore::report
