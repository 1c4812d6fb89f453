// Calls the library through the header of it that compiles fastest.
#include <encore/memory.h>

int main() {
  return encore::live_tensor_bytes() == 0 ? 0 : 1;
}
