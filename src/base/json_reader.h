// Reading JSON so that every refusal says where: "run.json: steps[3]: mode is missing".
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <encore/error.h>

namespace encore {

/// One object of a file, which knows where it stands. The value must outlive it. All members throw InvalidArgument.
class JsonReader {
 public:
  using Json = nlohmann::json;

  JsonReader(const Json& value, std::string place) : value_(value), place_(std::move(place)) {
    if (!value.is_object()) {
      throw InvalidArgument(place_ + " is " + value.type_name() + ", not an object");
    }
  }

  /// The object that the text is.
  static Json parse(std::string_view text, const std::string& file, const Json::parser_callback_t& callback = nullptr) {
    Json root;
    try {
      root = Json::parse(text.begin(), text.end(), callback);
    } catch (const Json::exception& error) {
      throw InvalidArgument(file + ": not JSON: " + error.what());
    }
    if (!root.is_object()) {
      throw InvalidArgument(file + ": is " + root.type_name() + ", not an object");
    }
    return root;
  }

  static int64_t to_integer(const Json& value, const std::string& place) {
    const bool too_large = value.is_number_unsigned() &&
                           value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!value.is_number_integer() || too_large) {
      throw InvalidArgument(place + " is " + (value.is_number() ? value.dump() : std::string(value.type_name())) +
                            ", not a whole number within 64 bits");
    }
    return value.get<int64_t>();
  }

  [[noreturn]] void refuse(const std::string& field, const std::string& what) const {
    throw InvalidArgument(place_of(field) + " " + what);
  }
  [[nodiscard]] std::string place_of(const std::string& field) const { return place_ + ": " + field; }

  [[nodiscard]] const Json* find(const char* field) const {
    const auto it = value_.find(field);
    return it == value_.end() ? nullptr : &*it;
  }
  [[nodiscard]] const Json& required(const char* field) const {
    const Json* value = find(field);
    if (value == nullptr) {
      refuse(field, "is missing");
    }
    return *value;
  }

  [[nodiscard]] std::string required_text(const char* field) const {
    static_cast<void>(required(field));
    return text(field);
  }
  [[nodiscard]] std::string text(const char* field) const {
    const Json* value = find(field);
    if (value == nullptr) {
      return "";
    }
    if (!value->is_string()) {
      refuse(field, "is " + std::string(value->type_name()) + ", not a string");
    }
    return value->get<std::string>();
  }

  [[nodiscard]] int64_t required_integer(const char* field, int64_t least = kAny) const {
    static_cast<void>(required(field));
    return integer(field, least, 0);
  }
  [[nodiscard]] int64_t integer(const char* field, int64_t least, int64_t otherwise) const {
    const Json* value = find(field);
    if (value == nullptr) {
      return otherwise;
    }
    const int64_t number = to_integer(*value, place_of(field));
    if (number < least) {
      refuse(field, "is " + std::to_string(number) + ", less than " + std::to_string(least));
    }
    return number;
  }

  [[nodiscard]] double required_number(const char* field) const {
    static_cast<void>(required(field));
    return number(field, 0);
  }
  /// null is how JSON says NaN, so only fields that may be unknown take it.
  [[nodiscard]] double number(const char* field, double otherwise) const {
    const Json* value = find(field);
    if (value == nullptr || (value->is_null() && std::isnan(otherwise))) {
      return otherwise;
    }
    if (!value->is_number()) {
      refuse(field, "is " + std::string(value->type_name()) + ", not a number");
    }
    return value->get<double>();
  }
  [[nodiscard]] double required_seconds(const char* field) const {
    static_cast<void>(required(field));
    return seconds(field, 0);
  }
  [[nodiscard]] double seconds(const char* field, double otherwise) const {
    const double time = number(field, otherwise);
    if (time < 0 && time != otherwise) {
      refuse(field, "is " + find(field)->dump() + ", less than 0");
    }
    return time;
  }

  [[nodiscard]] bool flag(const char* field) const {
    const Json* value = find(field);
    if (value == nullptr) {
      return false;
    }
    if (!value->is_boolean()) {
      refuse(field, "is " + std::string(value->type_name()) + ", not true or false");
    }
    return value->get<bool>();
  }

  [[nodiscard]] const Json& required_array(const char* field) const {
    static_cast<void>(required(field));
    return *array(field);
  }
  /// read(item, place) for each item of the array, if there is one.
  template <class Read>
  [[nodiscard]] auto list(const char* field, const Read& read) const {
    std::vector<decltype(read(value_, place_))> items;
    if (const Json* value = array(field)) {
      items.reserve(value->size());
      for (const Json& item : *value) {
        items.push_back(read(item, place_of(field) + "[" + std::to_string(items.size()) + "]"));
      }
    }
    return items;
  }

 private:
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::min();

  [[nodiscard]] const Json* array(const char* field) const {
    const Json* value = find(field);
    if (value != nullptr && !value->is_array()) {
      refuse(field, "is " + std::string(value->type_name()) + ", not an array");
    }
    return value;
  }

  const Json& value_;
  std::string place_;
};

}  // namespace encore
