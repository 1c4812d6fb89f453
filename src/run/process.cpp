// Linux: /proc/self/statm and getrusage.
#include "run/process.h"

#include <cstdio>

#include <sys/resource.h>
#include <unistd.h>

namespace encore::run {

int64_t process_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) {
    return 0;
  }
  long long pages = 0;
  const int found = std::fscanf(file, "%*s %lld", &pages);
  std::fclose(file);
  return found == 1 ? pages * sysconf(_SC_PAGESIZE) : 0;
}

int64_t process_peak_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace encore::run
