// Workloads whose steps change: lengths, sizes, graphs, turns.
#pragma once

#include "workloads/workload.h"

namespace workloads {

/// Makes the workload of this name, as make_workload() does. A step's shape follows from the seed and the step alone.
/// Throws std::invalid_argument for a name that is not in changing_workload_names().
///
/// "lengths": a GPT on batches of random length; "packed": the same on one row of sequences with a mask that keeps them
/// apart; "lstm_lengths", "gru_lengths": an LSTM, and a loop over a GRUCell, of random length; "trees": a recursive
/// network on random trees; "graphs": a graph network with another graph each step; "images": a ResNet on images of
/// changing size; "gan": steps of a discriminator and a generator by turns; "sizes": an MLP whose batch takes 40 sizes
/// in turn; "one_other": twenty steps of one shape, followed by one of another.
Workload make_changing_workload(std::string_view name, Size size, uint64_t seed);

const std::vector<std::string>& changing_workload_names();

}  // namespace workloads
