// Byte counts in a process that writes numbers with a comma.
#include <clocale>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <encore/bytes.h>

namespace encore {
namespace {

/// A German locale of the test's own: few machines have one installed.
class GermanLocale : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "encore_locale_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    const std::string make = "localedef -i de_DE -f UTF-8 '" + folder + "/de_DE.UTF-8' >/dev/null 2>&1";
    ASSERT_EQ(std::system(make.c_str()), 0) << "localedef and its sources (Debian: locales) are needed";
    setenv("LOCPATH", folder.c_str(), 1);
    ASSERT_NE(std::setlocale(LC_ALL, "de_DE.UTF-8"), nullptr);
    ASSERT_STREQ(std::localeconv()->decimal_point, ",");
  }
  void TearDown() override {
    std::setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(GermanLocale, ByteCountsHaveADecimalPoint) {
  EXPECT_EQ(parse_bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_STREQ(std::localeconv()->decimal_point, ",");
}

}  // namespace
}  // namespace encore
