// What Encore says to C++ code in a process whose engine slot is taken; called through ctypes.
#include <string>

#include <encore/encore.h>

/// "SlotError: ..." if a scope is refused.
extern "C" ENCORE_API const char* encore_open_scope() {
  static std::string answer;
  try {
    const encore::Scope scope;
    answer = "a scope was opened";
  } catch (const encore::SlotError& error) {
    answer = std::string("SlotError: ") + error.what();
  } catch (const std::exception& error) {
    answer = std::string("another error: ") + error.what();
  }
  return answer.c_str();
}
