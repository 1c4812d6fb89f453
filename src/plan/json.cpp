// The readers and writers of the JSON formats.
#include <encore/plan/json.h>

#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include <encore/error.h>

namespace encore::plan {
namespace {

using nlohmann::json;

// Says where in the file something is: "graph.json: step 3 ('conv'): time".
struct Place {
  std::string text;
  [[nodiscard]] Place field(const std::string& name) const { return {text + ": " + name}; }
  [[noreturn]] void refuse(const std::string& what) const { throw InvalidArgument(text + " " + what); }
};

const json& member(const json& object, const char* name, const Place& place) {
  const auto it = object.find(name);
  if (it == object.end()) {
    place.field(name).refuse("is missing");
  }
  return *it;
}

double read_time(const json& object, const char* name, const Place& place) {
  const json& value = member(object, name, place);
  if (!value.is_number()) {
    place.field(name).refuse("is " + std::string(value.type_name()) + ", not a number");
  }
  return value.get<double>();
}

int64_t to_integer(const json& value, const Place& place) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    place.refuse("is more than 64 bits can count");
  }
  if (!value.is_number_integer()) {
    place.refuse("is " + (value.is_number_float() ? value.dump() : std::string(value.type_name())) +
                 ", not a whole number within 64 bits");
  }
  return value.get<int64_t>();
}

int64_t read_bytes(const json& object, const char* name, const Place& place, bool optional = false) {
  if (optional && !object.contains(name)) {
    return 0;
  }
  return to_integer(member(object, name, place), place.field(name));
}

// Steps are 32-bit; what doesn't fit can't be right either, and -1 is refused by check() with the same words.
int32_t read_step(const json& value, const Place& place) {
  const int64_t step = to_integer(value, place);
  if (step < std::numeric_limits<int32_t>::min() || step > std::numeric_limits<int32_t>::max()) {
    place.refuse("is " + std::to_string(step) + ", which is not a step");
  }
  return static_cast<int32_t>(step);
}

std::string read_name(const json& object, const char* name, const Place& place) {
  if (!object.contains(name)) {
    return "";
  }
  if (!object[name].is_string()) {
    place.field(name).refuse("is " + std::string(object[name].type_name()) + ", not a string");
  }
  return object[name].get<std::string>();
}

std::vector<int32_t> read_steps(const json& object, const char* name, const Place& place) {
  const json& value = member(object, name, place);
  if (!value.is_array()) {
    place.field(name).refuse("is " + std::string(value.type_name()) + ", not an array");
  }
  std::vector<int32_t> steps;
  for (const json& item : value) {
    steps.push_back(read_step(item, place.field(name + ("[" + std::to_string(steps.size()) + "]"))));
  }
  return steps;
}

Variant read_variant(const json& value, const Place& place) {
  if (!value.is_object()) {
    place.refuse("is " + std::string(value.type_name()) + ", not an object");
  }
  return {read_name(value, "kind", place), read_bytes(value, "bytes", place), read_time(value, "encode_time", place),
          read_time(value, "decode_time", place)};
}

Step read_one_step(const json& value, size_t index, const std::string& file) {
  const Place number{file + ": step " + std::to_string(index)};
  Step step;
  step.name = read_name(value, "name", number);
  const Place place{number.text + (step.name.empty() ? "" : " ('" + step.name + "')")};
  step.time = read_time(value, "time", place);
  step.bytes = read_bytes(value, "bytes", place);
  step.temp_bytes = read_bytes(value, "temp_bytes", place, true);
  step.background_bytes = read_bytes(value, "background_bytes", place, true);
  step.inputs = read_steps(value, "inputs", place);
  if (value.contains("held_until")) {
    step.held_until = read_step(value["held_until"], place.field("held_until"));
  }
  if (value.contains("variants")) {
    if (!value["variants"].is_array()) {
      place.field("variants").refuse("is " + std::string(value["variants"].type_name()) + ", not an array");
    }
    for (const json& item : value["variants"]) {
      step.variants.push_back(
          read_variant(item, place.field("variants[" + std::to_string(step.variants.size()) + "]")));
    }
  }
  return step;
}

Stage read_one_stage(const json& value, size_t index, const std::string& file) {
  const Place place{file + ": stage " + std::to_string(index)};
  return {read_time(value, "forward_time", place),
          read_time(value, "backward_time", place),
          read_bytes(value, "output_bytes", place),
          read_bytes(value, "saved_bytes", place),
          read_bytes(value, "forward_temp_bytes", place, true),
          read_bytes(value, "backward_temp_bytes", place, true)};
}

json parse(std::string_view text, const std::string& file, const json::parser_callback_t& callback = nullptr) {
  json root;
  try {
    root = json::parse(text.begin(), text.end(), callback);
  } catch (const json::exception& error) {
    throw InvalidArgument(file + ": not JSON: " + error.what());
  }
  if (!root.is_object()) {
    throw InvalidArgument(file + ": is " + root.type_name() + ", not an object");
  }
  return root;
}

std::string read_format(const json& root, const std::string& file) {
  const Place place{file};
  member(root, "format", place);
  return read_name(root, "format", place);
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
  const json root = parse(text, name, take);
  const std::string format = read_format(root, name);
  const bool is_graph = format == "encore-graph-1";
  if (!is_graph && format != "encore-chain-1") {
    throw InvalidArgument(name + ": format is '" + format + "', not 'encore-graph-1' or 'encore-chain-1'");
  }
  const Place place{name};
  const char* list = is_graph ? "steps" : "stages";
  if (!member(root, list, place).is_array()) {
    place.field(list).refuse("is " + std::string(root[list].type_name()) + ", not an array");
  }
  try {
    if (is_graph) {
      graph.outputs = read_steps(root, "outputs", place);
      check(graph);
      return graph;
    }
    chain.input_bytes = read_bytes(root, "input_bytes", place);
    check(chain);
    return chain;
  } catch (const InvalidArgument& error) {
    const std::string what = error.what();
    throw InvalidArgument(what.rfind(name + ":", 0) == 0 ? what : name + ": " + what);
  }
}

Schedule read_schedule(std::string_view text, const std::string& name, const Graph& graph) {
  const json root = parse(text, name);
  const std::string format = read_format(root, name);
  if (format != "encore-schedule-1" && format != "encore-plan-1") {
    throw InvalidArgument(name + ": format is '" + format + "', not 'encore-schedule-1' or 'encore-plan-1'");
  }
  const Place top{name};
  const json& ops = member(root, "schedule", top);
  if (!ops.is_array()) {
    top.field("schedule").refuse("is " + std::string(ops.type_name()) + ", not an array");
  }
  Schedule schedule;
  for (const json& item : ops) {
    const Place place{name + ": schedule[" + std::to_string(schedule.size()) + "]"};
    if (!item.is_array() || item.size() < 2 || item.size() > 3 || !item[0].is_string()) {
      place.refuse("is not [\"compute\", step], [\"drop\", step], [\"encode\", step, variant] or [\"decode\", step]");
    }
    const std::string kind = item[0].get<std::string>();
    Op op;
    if (kind == "compute") {
      op.kind = OpKind::kCompute;
    } else if (kind == "drop") {
      op.kind = OpKind::kDrop;
    } else if (kind == "encode") {
      op.kind = OpKind::kEncode;
    } else if (kind == "decode") {
      op.kind = OpKind::kDecode;
    } else {
      place.refuse("is '" + kind + "', not compute, drop, encode or decode");
    }
    op.step = read_step(item[1], place.field("step"));
    op.variant = item.size() > 2 ? read_step(item[2], place.field("variant")) : 0;
    if (op.step < 0 || static_cast<size_t>(op.step) >= graph.steps.size()) {
      place.field("step").refuse("is " + std::to_string(op.step) + ", which is not one of the " +
                                 std::to_string(graph.steps.size()) + " steps");
    }
    schedule.push_back(op);
  }
  return schedule;
}

}  // namespace encore::plan
