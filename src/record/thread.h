// All that recording knows of a thread, in one place.
#pragma once

#include <vector>

#include "record/observer.h"

namespace encore::record {

class BackwardRun;
class GeneratorWatch;
class Recorder;

/// Each thread has its own, and nobody else looks at it. Every change is undone by the object that made it.
struct ThreadState {
  Recorder* recorder = nullptr;     // that watches the thread; it knows the one that it stands before
  int paused = 0;                   // while above 0, ops go unrecorded (Recorder::Pause)
  Observer observer;                // of ops: on while a recorder is, but not inside a backward that nobody records
  GeneratorWatch* watch = nullptr;  // the innermost; it knows the one around it
};

/// Good to the very end of the thread, since ops may be recorded until then.
ThreadState& this_thread();

/// Backwards that run on this thread, the innermost last.
std::vector<BackwardRun*>& backwards_of_this_thread();

}  // namespace encore::record
