// A step's report on one screen.
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include <encore/budget.h>
#include <encore/bytes.h>

#include "base/plain_numbers.h"
#include "budget/names.h"

namespace encore {
namespace {

std::string line(const char* format, ...) __attribute__((format(printf, 1, 2)));

std::string line(const char* format, ...) {
  char buffer[512];
  const PlainNumbers plain;
  va_list args;
  va_start(args, format);
  std::vsnprintf(buffer, sizeof(buffer), format, args);
  va_end(args);
  return std::string(buffer) + "\n";
}

std::string bytes_or(int64_t bytes, const char* otherwise) {
  return bytes < 0 ? otherwise : format_bytes(bytes);
}

}  // namespace

std::string StepReport::text() const {
  constexpr size_t kMostValues = 10;
  constexpr size_t kMostHeld = 5;
  if (step < 0) {
    return line("no step yet, the budget is %s", bytes_or(limit_bytes, "learnt in the first one").c_str());
  }
  std::string text;
  text += line("step %lld, %s%s%s, signature %016llx", static_cast<long long>(step), budget::name_of(mode),
               routine ? ", routine" : "", failed ? ", ended by an exception" : "",
               static_cast<unsigned long long>(signature));
  if (!note.empty()) {
    text += line("  note          %s", note.c_str());
  }
  text += line("  budget        %s",
               bytes_or(limit_bytes, refused ? "not known" : "none in this step, which shows what is needed").c_str());
  text += line("  peak          %s measured, %s predicted, %s plain", format_bytes(peak_bytes).c_str(),
               bytes_or(predicted_peak_bytes, "not").c_str(), bytes_or(plain_peak_bytes, "unknown").c_str());
  text += line("  resting       %s", format_bytes(resting_bytes).c_str());
  if (process_bytes > 0) {
    text += line("  process       %s in this step, %s at most since it began; Encore's own books %s",
                 format_bytes(process_bytes).c_str(), format_bytes(process_peak_bytes).c_str(),
                 format_bytes(book_bytes).c_str());
  }
  if (foreign_bytes > 0) {
    text +=
        line("  not counted   %s of tensors over memory that is not LibTorch's", format_bytes(foreign_bytes).c_str());
  }
  text += line("  time          %.3f s, of it %.3f s replay and %.3f s eviction; planning before it %.3f s",
               step_seconds, replay_seconds, eviction_seconds, planning_seconds);
  if (predicted_seconds >= 0) {
    text += line("  ops           %.3f s by plan, %.3f s without recomputation", predicted_seconds, plain_seconds);
  }
  if (kinds_seen > 1) {
    text += line("  kinds         %lld of steps seen, %lld known; learning and planning took %.3f s of %.3f s so far",
                 static_cast<long long>(kinds_seen), static_cast<long long>(kinds_known), learning_seconds,
                 training_seconds + learning_seconds);
  }
  text += line("  ops           %lld recorded, %lld replayed, %lld evictions under pressure",
               static_cast<long long>(ops_recorded), static_cast<long long>(ops_replayed),
               static_cast<long long>(evictions));
  text += line("  values        %lld kept, of them %lld in a smaller form, %lld dropped by plan",
               static_cast<long long>(values_kept), static_cast<long long>(values_packed),
               static_cast<long long>(values_dropped));
  int64_t held_bytes = 0;
  std::for_each(held.begin(), held.end(), [&](const ValueReport& value) { held_bytes += value.bytes; });
  if (held_bytes > 0) {
    text += line(
        "  held          %s at the plan's peak by your own code, which could be given up if variables, lists and "
        "long expressions let go of it",
        format_bytes(held_bytes).c_str());
  }
  for (size_t i = 0; i < std::min(held.size(), kMostHeld); ++i) {
    text += line("    %-40s %10s  %s", held[i].name.c_str(), format_bytes(held[i].bytes).c_str(),
                 held[i].module.empty() ? "" : ("in " + held[i].module).c_str());
  }
  std::vector<ValueReport> sorted = values;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ValueReport& a, const ValueReport& b) { return a.times * a.bytes > b.times * b.bytes; });
  for (size_t i = 0; i < std::min(sorted.size(), kMostValues) && sorted[i].times > 0; ++i) {
    text += line("    %-40s %10s  recomputed %lld time%s, %s", sorted[i].name.c_str(),
                 format_bytes(sorted[i].bytes).c_str(), static_cast<long long>(sorted[i].times),
                 sorted[i].times == 1 ? "" : "s", sorted[i].why.c_str());
  }
  return text;
}

}  // namespace encore
