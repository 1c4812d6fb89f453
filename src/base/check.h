// Assertions of our own: a broken promise inside the library stops the program, with a sentence.
#pragma once

// NDEBUG can't be the switch: LibTorch's classes need it set in every build. The developers' presets turn these on.
#ifdef ENCORE_CHECKS
#include <cstdio>
#include <cstdlib>
#define ENCORE_CHECK(condition, sentence)                                                         \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      std::fprintf(stderr, "%s:%d: encore: %s (%s)\n", __FILE__, __LINE__, sentence, #condition); \
      std::abort();                                                                               \
    }                                                                                             \
  } while (false)
#else
#define ENCORE_CHECK(condition, sentence) static_cast<void>(0)
#endif
