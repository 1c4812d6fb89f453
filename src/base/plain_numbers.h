// Numbers as text are the same in every locale.
#pragma once

#include <clocale>

#include <locale.h>

namespace encore {

/// While it lives, this thread's printf and strtod know a decimal point, whatever locale the process has chosen.
class PlainNumbers {
 public:
  PlainNumbers() : before_(uselocale(plain())) {}
  ~PlainNumbers() { uselocale(before_); }
  PlainNumbers(const PlainNumbers&) = delete;
  PlainNumbers& operator=(const PlainNumbers&) = delete;

 private:
  static locale_t plain() {
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", static_cast<locale_t>(nullptr));
    return locale;
  }
  locale_t before_;
};

}  // namespace encore
