// One small file in memory, mapped side by side as often as needed.
#include "dist/scratch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace encore::dist {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;

/// False if a piece could not be put where it belongs; plain pages are there then.
bool map_pieces(char* at, size_t nbytes) {
  const int file = memfd_create("encore-scratch", MFD_CLOEXEC);
  if (file < 0) {
    return false;
  }
  bool mapped = ftruncate(file, kPieceBytes) == 0;
  for (size_t offset = 0; mapped && offset < nbytes; offset += kPieceBytes) {
    mapped = mmap(at + offset, std::min(kPieceBytes, nbytes - offset), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                  file, 0) != MAP_FAILED;
  }
  close(file);
  return mapped;
}

}  // namespace

std::shared_ptr<char> make_scratch(size_t nbytes) {
  const size_t rounded = std::max(nbytes, size_t{1});
  void* at = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    throw std::bad_alloc();
  }
  map_pieces(static_cast<char*>(at), rounded);
  return {static_cast<char*>(at), [rounded](char* from) { munmap(from, rounded); }};
}

}  // namespace encore::dist
