// A process that writes numbers with a comma, and thousands with points.
#pragma once

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <stdexcept>
#include <string>

namespace encore::test {

/// While it lives, C and C++ have a German locale of the test's own making: few machines have one installed.
class GermanLocale {
 public:
  GermanLocale() {
    std::string folder = (std::filesystem::temp_directory_path() / "encore_locale_XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      throw std::runtime_error("no folder for a locale can be made: " + folder);
    }
    folder_ = folder;
    const std::string make = "localedef -i de_DE -f UTF-8 '" + folder + "/de_DE.UTF-8' >/dev/null 2>&1";
    if (std::system(make.c_str()) != 0) {
      std::filesystem::remove_all(folder_);
      throw std::runtime_error("localedef and its sources (Debian: locales) are needed");
    }
    setenv("LOCPATH", folder.c_str(), 1);
    before_ = std::locale::global(std::locale("de_DE.UTF-8"));  // C's as well
    if (!is_on()) {
      throw std::runtime_error("the German locale writes no comma");
    }
  }
  ~GermanLocale() {
    std::locale::global(before_);
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    std::filesystem::remove_all(folder_);
  }
  GermanLocale(const GermanLocale&) = delete;
  GermanLocale& operator=(const GermanLocale&) = delete;

  /// Nobody has left another one behind.
  static bool is_on() { return *std::localeconv()->decimal_point == ','; }

 private:
  std::filesystem::path folder_;
  std::locale before_;
};

}  // namespace encore::test
