// The policies that come with Encore.
#include <encore/policy.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <encore/error.h>

namespace encore {
namespace {

constexpr std::array<std::string_view, 20> kMatmuls = {"aten::mm",
                                                       "aten::addmm",
                                                       "aten::bmm",
                                                       "aten::baddbmm",
                                                       "aten::addbmm",
                                                       "aten::mv",
                                                       "aten::addmv",
                                                       "aten::dot",
                                                       "aten::vdot",
                                                       "aten::linear",
                                                       "aten::convolution",
                                                       "aten::_convolution",
                                                       "aten::mkldnn_convolution",
                                                       "aten::mkldnn_linear",
                                                       "aten::_trilinear",
                                                       "aten::_scaled_dot_product_flash_attention_for_cpu",
                                                       "aten::_scaled_dot_product_efficient_attention",
                                                       "aten::_scaled_dot_product_flash_attention",
                                                       "aten::mkldnn_rnn_layer",
                                                       "aten::convolution_overrideable"};

std::string_view without_overload(std::string_view op) {
  return op.substr(0, op.find('.'));
}

/// `*` and `?` as in a shell, over the whole text.
bool matches(std::string_view text, std::string_view pattern) {
  size_t at = 0;
  size_t star = std::string_view::npos;
  size_t star_at = 0;
  size_t p = 0;
  while (at < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_at = at;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[at])) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  return p == pattern.size();
}

}  // namespace

Policy::Policy(Rule rule, Action rest) : rule_(std::move(rule)), rest_(rest) {
  if (!rule_) {
    throw InvalidArgument("policy: the rule is empty; pass a function of ValueInfo");
  }
}

Action Policy::operator()(const ValueInfo& value) const {
  return rule_(value).value_or(rest_);
}

std::optional<Action> Policy::opinion(const ValueInfo& value) const {
  return rule_(value);
}

Policy operator|(const Policy& first, const Policy& second) {
  return Policy(
      [first, second](const ValueInfo& value) {
        const auto opinion = first.opinion(value);
        return opinion.has_value() ? opinion : second.opinion(value);
      },
      second.rest());
}

Policy keep_all() {
  return Policy([](const ValueInfo&) { return std::nullopt; }, Action::kKeep);
}

Policy drop_all() {
  return Policy([](const ValueInfo&) { return std::nullopt; }, Action::kRecompute);
}

Policy pack_masks() {
  return Policy([](const ValueInfo& value) { return value.random ? std::optional(Action::kPack) : std::nullopt; },
                Action::kRecompute);
}

Policy keep_matmuls() {
  return Policy(
      [](const ValueInfo& value) -> std::optional<Action> {
        const auto is_matmul = [](std::string_view op) {
          return std::find(kMatmuls.begin(), kMatmuls.end(), without_overload(op)) != kMatmuls.end();
        };
        return is_matmul(value.op) || is_matmul(value.maker) ? std::optional(Action::kKeep) : std::nullopt;
      },
      Action::kRecompute);
}

Policy keep_ops(std::initializer_list<std::string_view> ops) {
  const std::vector<std::string> names(ops.begin(), ops.end());
  return Policy(
      [names](const ValueInfo& value) -> std::optional<Action> {
        const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name == value.op || name == without_overload(value.op) || name == value.maker ||
                 name == without_overload(value.maker);
        });
        return named ? std::optional(Action::kKeep) : std::nullopt;
      },
      Action::kRecompute);
}

Policy larger_than(int64_t bytes) {
  if (bytes < 0) {
    throw InvalidArgument("policy: larger_than(" + std::to_string(bytes) + ") is negative; pass a count of bytes");
  }
  return Policy(
      [bytes](const ValueInfo& value) {
        return value.bytes > bytes ? std::optional(Action::kRecompute) : std::nullopt;
      },
      Action::kKeep);
}

Policy named(std::string_view pattern, const Policy& policy) {
  return Policy(
      [pattern = std::string(pattern), policy](const ValueInfo& value) {
        return matches(value.path, pattern) ? std::optional(policy(value)) : std::nullopt;
      },
      Action::kKeep);
}

}  // namespace encore
