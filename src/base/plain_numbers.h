// Numbers as text are the same in every locale.
#pragma once

#include <array>
#include <clocale>
#include <cstdio>
#include <sstream>
#include <string>

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

/// printf of one number.
inline std::string number_text(const char* format, double value) {
  const PlainNumbers plain_numbers;
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

/// The same for a stream: a C++ locale would have 1000 written as 1.000.
class PlainStream : public std::ostringstream {
 public:
  PlainStream() { imbue(std::locale::classic()); }
};

}  // namespace encore
