// What is in memory where a plan needs most, to be shown.
#pragma once

#include <encore/plan/schedule.h>

#include "budget/step_model.h"
#include "report/run.h"

namespace encore::budget {

/// `graph` is that of `model`, with its backgrounds. The parts sum up to the peak of the schedule.
report::LivePeak live_at_peak(const StepModel& model, const plan::Graph& graph, const plan::Schedule& schedule);

}  // namespace encore::budget
