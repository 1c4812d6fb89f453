// What checkpoints have saved, measured.
#include <encore/profiler.h>

#include "python/bindings.h"

namespace encore::python {

void bind_profiler(py::module_& module) {
  py::class_<ReplaySample>(module, "ReplaySample")
      .def_readonly("ops", &ReplaySample::ops)
      .def_readonly("duration_ns", &ReplaySample::duration_ns)
      .def_readonly("live_bytes_before", &ReplaySample::live_bytes_before)
      .def_readonly("live_bytes_after", &ReplaySample::live_bytes_after);
  py::class_<CheckpointRow>(module, "CheckpointRow", "All calls of the checkpoints of one name.")
      .def_readonly("name", &CheckpointRow::name)
      .def_readonly("calls", &CheckpointRow::calls)
      .def_readonly("values_dropped", &CheckpointRow::values_dropped)
      .def_readonly("values_kept", &CheckpointRow::values_kept)
      .def_readonly("bytes_saved", &CheckpointRow::bytes_saved)
      .def_readonly("bytes_still_alive", &CheckpointRow::bytes_still_alive)
      .def_readonly("bytes_kept", &CheckpointRow::bytes_kept)
      .def_readonly("ops_replayed", &CheckpointRow::ops_replayed)
      .def_readonly("replay_ns", &CheckpointRow::replay_ns)
      .def_readonly("replays", &CheckpointRow::replays);
  py::class_<CheckpointWarning>(module, "CheckpointWarning", "A checkpoint that saved nothing.")
      .def_readonly("name", &CheckpointWarning::name)
      .def_readonly("reason", &CheckpointWarning::reason)
      .def_readonly("calls", &CheckpointWarning::calls);
  py::class_<ProfilerReport>(module, "ProfilerReport", "str() is a table.")
      .def_readonly("memory_saved_bytes", &ProfilerReport::memory_saved_bytes)
      .def_readonly("checkpoint_count", &ProfilerReport::checkpoint_count)
      .def_readonly("ops_replayed", &ProfilerReport::ops_replayed)
      .def_readonly("replay_ns", &ProfilerReport::replay_ns)
      .def_readonly("rows", &ProfilerReport::rows)
      .def_readonly("warnings", &ProfilerReport::warnings)
      .def("__str__", &ProfilerReport::text)
      .def("__repr__", &ProfilerReport::text);
  py::class_<CheckpointProfiler>(module, "Profiler")
      .def(py::init<>(), NoGil())
      .def("report", &CheckpointProfiler::report, NoGil());
}

}  // namespace encore::python
