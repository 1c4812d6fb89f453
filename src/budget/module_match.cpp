// LibTorch's layers are named as its ops are, but for capitals and underscores.
#include "budget/module_match.h"

#include <cctype>
#include <string>

namespace encore::budget {
namespace {

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// "aten::_softmax.int" and "torch::nn::SoftmaxImpl" are both "softmax".
std::string bare_name(std::string_view name, std::string_view prefix) {
  std::string bare;
  for (const char c : name.substr(prefix.size())) {
    if (c == '.') {
      break;
    }
    if (c != '_') {
      bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return bare;
}

size_t ops_of_dropout(const std::vector<std::string_view>& names) {
  if (begins_with(names[0], "aten::native_dropout")) {
    return 1;
  }
  // A mask is drawn, scaled, and multiplied by.
  if (names.size() < 3 || !begins_with(names[0], "aten::empty") || !begins_with(names[1], "aten::bernoulli_")) {
    return 0;
  }
  for (size_t i = 2; i < names.size(); ++i) {
    if (begins_with(names[i], "aten::mul")) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

size_t ops_of_kind(std::string_view kind, const std::vector<std::string_view>& names) {
  constexpr std::string_view kLibTorch = "torch::nn::";
  constexpr std::string_view kEnding = "Impl";
  constexpr std::string_view kAten = "aten::";
  if (names.empty() || !begins_with(kind, kLibTorch) || !begins_with(names[0], kAten)) {
    return 0;
  }
  if (kind.find("Dropout") != std::string_view::npos) {
    return ops_of_dropout(names);
  }
  std::string bare = bare_name(kind, kLibTorch);
  if (kind.size() > kEnding.size() && kind.substr(kind.size() - kEnding.size()) == kEnding) {
    bare.resize(bare.size() - kEnding.size());
  }
  const std::string op = bare_name(names[0], kAten);
  // Averaging to one pixel is a mean; pooling that keeps places is an op with a longer name.
  const bool is_mean = begins_with(bare, "adaptiveavgpool") && op == "mean";
  return !bare.empty() && (begins_with(op, bare) || is_mean) ? 1 : 0;
}

}  // namespace encore::budget
