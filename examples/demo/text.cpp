// Reads a text and cuts it into batches.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <encore/error.h>

#include "data.h"

namespace demo {
namespace {

constexpr char kFirst = ' ';
constexpr char kLast = '~';

uint8_t id_of(char c) {
  if (c == '\n') {
    return Text::kVocabulary - 1;
  }
  return static_cast<uint8_t>(c < kFirst || c > kLast ? 0 : c - kFirst);
}

}  // namespace

Text::Text(const std::string& path) : path_(path.empty() ? DEMO_TEXT : path) {
  std::ifstream file(path_, std::ios::binary);
  if (!file || std::filesystem::is_directory(path_)) {
    throw encore::InvalidArgument(path_ + ": can't be read; name a text file with --data");
  }
  for (std::istreambuf_iterator<char> c(file), end; c != end; ++c) {
    ids_.push_back(id_of(*c));
  }
}

Batch Text::batch(int64_t step, int64_t count, int64_t length) const {
  const auto places = static_cast<int64_t>(ids_.size()) - length;
  if (places < 1) {
    throw encore::InvalidArgument(path_ + ": has " + std::to_string(ids_.size()) + " characters; at least " +
                                  std::to_string(length + 1) + " are needed");
  }
  std::mt19937_64 random(static_cast<uint64_t>(step));
  torch::Tensor ids = torch::empty({count, length + 1}, torch::kLong);
  auto* out = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const auto from = ids_.begin() + static_cast<int64_t>(random() % static_cast<uint64_t>(places));
    out = std::copy(from, from + length + 1, out);
  }
  return {ids.narrow(1, 0, length), ids.narrow(1, 1, length)};
}

}  // namespace demo
