// Byte counts as text, both ways.
#include <encore/bytes.h>

#include <gtest/gtest.h>

#include <encore/error.h>

namespace encore {
namespace {

TEST(Bytes, ParsesDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("7B"), 7);
  EXPECT_EQ(parse_bytes("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(parse_bytes("2 GB"), 2'000'000'000);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_bytes("9007199254740993"), (int64_t{1} << 53) + 1);
  EXPECT_EQ(parse_bytes("8388607TiB"), int64_t{8388607} << 40);
}

TEST(Bytes, RefusesAnythingElseByName) {
  for (const char* text : {"", "12 parrots", "-1", "MiB", "1..5MB", "1e3", "99999999TiB", "9223372036854775808",
                           "8388608TiB", "5 mb", "80%", "nan", " 5"}) {
    try {
      parse_bytes(text);
      FAIL() << "accepted '" << text << "'";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("'" + std::string(text) + "'"), std::string::npos) << error.what();
    }
  }
}

TEST(Bytes, FormatsForPeople) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(int64_t{612} << 20), "612.0 MiB");
  EXPECT_EQ(format_bytes(-2048), "-2.0 KiB");
}

}  // namespace
}  // namespace encore
