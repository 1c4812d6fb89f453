// The Python host: Python's engine goes on, and is chained.
#pragma once

#include "host/host.h"

namespace encore::host {

std::unique_ptr<Host> make_python_host(const Interpreter& interpreter);

}  // namespace encore::host
