// The readers and writers of the JSON formats.
#include <encore/plan/json.h>

#include <algorithm>
#include <limits>

#include "base/json_reader.h"
#include "plan/names.h"

namespace encore::plan {
namespace {

using nlohmann::json;

// Steps are 32-bit; what doesn't fit can't be right either, and -1 is refused by check() with the same words.
int32_t read_step(const json& value, const std::string& place) {
  const int64_t step = JsonReader::to_integer(value, place);
  if (step < std::numeric_limits<int32_t>::min() || step > std::numeric_limits<int32_t>::max()) {
    throw InvalidArgument(place + " is " + std::to_string(step) + ", which is not a step");
  }
  return static_cast<int32_t>(step);
}

std::vector<int32_t> read_steps(const JsonReader& reader, const char* field) {
  static_cast<void>(reader.required(field));
  return reader.list(field, read_step);
}

// What is negative is refused by check(), with the step's name.
int64_t read_bytes(const JsonReader& reader, const char* field) {
  return reader.integer(field, std::numeric_limits<int64_t>::min(), 0);
}

Variant read_variant(const json& value, const std::string& place) {
  const JsonReader reader(value, place);
  return {reader.text("kind"), reader.required_integer("bytes"), reader.required_number("encode_time"),
          reader.required_number("decode_time")};
}

Step read_one_step(const json& value, size_t index, const std::string& file) {
  const std::string place = file + ": step " + std::to_string(index);
  Step step;
  step.name = JsonReader(value, place).text("name");
  const JsonReader reader(value, place + (step.name.empty() ? "" : " ('" + step.name + "')"));
  step.time = reader.required_number("time");
  step.bytes = reader.required_integer("bytes");
  step.temp_bytes = read_bytes(reader, "temp_bytes");
  step.background_bytes = read_bytes(reader, "background_bytes");
  step.inputs = read_steps(reader, "inputs");
  if (const json* held_until = reader.find("held_until")) {
    step.held_until = read_step(*held_until, reader.place_of("held_until"));
  }
  step.variants = reader.list("variants", read_variant);
  return step;
}

Stage read_one_stage(const json& value, size_t index, const std::string& file) {
  const JsonReader reader(value, file + ": stage " + std::to_string(index));
  return {reader.required_number("forward_time"),   reader.required_number("backward_time"),
          reader.required_integer("output_bytes"),  reader.required_integer("saved_bytes"),
          read_bytes(reader, "forward_temp_bytes"), read_bytes(reader, "backward_temp_bytes")};
}

OpKind read_kind(const std::string& word, const std::string& place) {
  const auto* const kind =
      std::find_if(kOpKinds.begin(), kOpKinds.end(), [&](OpKind known) { return word == name_of(known); });
  if (kind == kOpKinds.end()) {
    throw InvalidArgument(place + " is '" + word + "', not compute, drop, encode or decode");
  }
  return *kind;
}

}  // namespace

Problem read_problem(std::string_view text, const std::string& name) {
  Graph graph;
  Chain chain;
  std::string key;
  // Steps are taken out while the text is read, so that a million of them fit into memory.
  const auto take = [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key) {
      key = value.get<std::string>();
    }
    const bool steps = key == "steps";
    if (depth != 2 || !(steps || key == "stages")) {
      return true;
    }
    const size_t index = steps ? graph.steps.size() : chain.stages.size();
    if (event == json::parse_event_t::value || event == json::parse_event_t::array_end) {
      throw InvalidArgument(name + ": " + (steps ? "step " : "stage ") + std::to_string(index) + " is " +
                            value.type_name() + ", not an object");
    }
    if (event != json::parse_event_t::object_end) {
      return true;
    }
    if (steps) {
      graph.steps.push_back(read_one_step(value, index, name));
    } else {
      chain.stages.push_back(read_one_stage(value, index, name));
    }
    return false;
  };
  const json root = JsonReader::parse(text, name, take);
  const JsonReader reader(root, name);
  const std::string format = reader.required_text("format");
  const bool is_graph = format == "encore-graph-1";
  if (!is_graph && format != "encore-chain-1") {
    reader.refuse("format", "is '" + format + "', not 'encore-graph-1' or 'encore-chain-1'");
  }
  static_cast<void>(reader.required_array(is_graph ? "steps" : "stages"));
  try {
    if (is_graph) {
      graph.outputs = read_steps(reader, "outputs");
      check(graph);
      return graph;
    }
    chain.input_bytes = reader.required_integer("input_bytes");
    check(chain);
    return chain;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.rfind(name + ":", 0) == 0 ? what : name + ": " + what);
  }
}

Schedule read_schedule(std::string_view text, const std::string& name, const Graph& graph) {
  const json root = JsonReader::parse(text, name);
  const JsonReader reader(root, name);
  const std::string format = reader.required_text("format");
  if (format != "encore-schedule-1" && format != "encore-plan-1") {
    reader.refuse("format", "is '" + format + "', not 'encore-schedule-1' or 'encore-plan-1'");
  }
  static_cast<void>(reader.required("schedule"));
  return reader.list("schedule", [&](const json& item, const std::string& place) {
    if (!item.is_array() || item.size() < 2 || item.size() > 3 || !item[0].is_string()) {
      throw InvalidArgument(
          place + " is not [\"compute\", step], [\"drop\", step], [\"encode\", step, variant] or [\"decode\", step]");
    }
    Op op;
    op.kind = read_kind(item[0].get<std::string>(), place);
    op.step = read_step(item[1], place + ": step");
    op.variant = item.size() > 2 ? read_step(item[2], place + ": variant") : 0;
    if (op.step < 0 || static_cast<size_t>(op.step) >= graph.steps.size()) {
      throw InvalidArgument(place + ": step is " + std::to_string(op.step) + ", which is not one of the " +
                            std::to_string(graph.steps.size()) + " steps");
    }
    return op;
  });
}

}  // namespace encore::plan
