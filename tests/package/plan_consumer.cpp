// Uses what needs no LibTorch.
#include <encore/bytes.h>

int main() {
  return encore::parse_bytes("1KiB") == 1024 ? 0 : 1;
}
