// The readers: what they accept, and that every refusal names the file, the step and the field.
#include <encore/plan/json.h>

#include <gtest/gtest.h>

#include <encore/error.h>
#include <encore/plan/validate.h>

namespace encore::plan {
namespace {

constexpr const char* kGraph = R"({"format": "encore-graph-1",
  "steps": [{"name": "conv1", "time": 1.5, "bytes": 4096, "temp_bytes": 7, "inputs": []},
            {"name": "relu", "time": 1, "bytes": 8, "inputs": [0],
             "variants": [{"kind": "pack", "bytes": 1, "encode_time": 0.1, "decode_time": 0.2}]}],
  "outputs": [1]})";

constexpr const char* kChain = R"({"format": "encore-chain-1", "input_bytes": 100,
  "stages": [{"forward_time": 1, "backward_time": 2, "output_bytes": 10, "saved_bytes": 30,
              "forward_temp_bytes": 3, "backward_temp_bytes": 4}]})";

std::string refusal(const std::string& text) {
  try {
    read_problem(text, "g.json");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

// The valid graph or chain with one piece of text replaced.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& text, const std::vector<std::string>& words) {
  const std::string message = refusal(text);
  EXPECT_EQ(message.rfind("g.json:", 0), 0U) << message;
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
  }
}

TEST(Json, ReadsAGraph) {
  const Graph graph = std::get<Graph>(read_problem(kGraph, "g.json"));
  ASSERT_EQ(graph.steps.size(), 2U);
  EXPECT_EQ(graph.steps[0].name, "conv1");
  EXPECT_EQ(graph.steps[0].time, 1.5);
  EXPECT_EQ(graph.steps[0].bytes, 4096);
  EXPECT_EQ(graph.steps[0].temp_bytes, 7);
  EXPECT_EQ(graph.steps[1].inputs, std::vector<int32_t>{0});
  ASSERT_EQ(graph.steps[1].variants.size(), 1U);
  EXPECT_EQ(graph.steps[1].variants[0].kind, "pack");
  EXPECT_EQ(graph.steps[1].variants[0].decode_time, 0.2);
  EXPECT_EQ(graph.outputs, std::vector<int32_t>{1});
}

TEST(Json, ReadsAChain) {
  const Chain chain = std::get<Chain>(read_problem(kChain, "c.json"));
  EXPECT_EQ(chain.input_bytes, 100);
  ASSERT_EQ(chain.stages.size(), 1U);
  EXPECT_EQ(chain.stages[0].saved_bytes, 30);
  EXPECT_EQ(chain.stages[0].backward_temp_bytes, 4);
}

TEST(Json, WritesWhatItReads) {
  const Graph graph = std::get<Graph>(read_problem(kGraph, "g.json"));
  EXPECT_EQ(write_graph(std::get<Graph>(read_problem(write_graph(graph), "again"))), write_graph(graph));
  const Chain chain = std::get<Chain>(read_problem(kChain, "c.json"));
  EXPECT_EQ(write_chain(std::get<Chain>(read_problem(write_chain(chain), "again"))), write_chain(chain));
  const Schedule schedule{{OpKind::kCompute, 0, 0},
                          {OpKind::kCompute, 1, 0},
                          {OpKind::kEncode, 1, 0},
                          {OpKind::kDrop, 0, 0},
                          {OpKind::kDecode, 1, 0}};
  EXPECT_EQ(read_schedule(write_schedule(schedule), "s.json", graph), schedule);
}

TEST(Json, RefusesWhatIsNotJson) {
  expect_refused("", {"not JSON"});
  expect_refused("{\"format\": ", {"not JSON"});
  expect_refused("[1, 2]", {"not an object"});
  expect_refused("{\"format\": \"encore-graph-1\"} x", {"not JSON"});
  expect_refused("\xff\xfe", {"not JSON"});
  expect_refused(std::string(1'000'000, '['), {"not JSON"});
  expect_refused(with(kGraph, "1.5", "NaN"), {"not JSON"});
  expect_refused(with(kGraph, "1.5", "Infinity"), {"not JSON"});
  expect_refused(with(kGraph, "1.5", "1e999"), {"not JSON"});
}

TEST(Json, RefusesAWrongFormatWord) {
  expect_refused(with(kGraph, "encore-graph-1", "encore-graph-2"), {"format", "encore-graph-2"});
  expect_refused(with(kGraph, "\"encore-graph-1\"", "7"), {"format"});
  expect_refused("{}", {"format", "missing"});
}

TEST(Json, RefusesMissingAndMistypedFields) {
  expect_refused(with(kGraph, "\"time\": 1.5, ", ""), {"step 0 ('conv1')", "time", "missing"});
  expect_refused(with(kGraph, "1.5", "\"fast\""), {"step 0 ('conv1')", "time", "not a number"});
  expect_refused(with(kGraph, "4096", "1.5"), {"step 0", "bytes", "whole number"});
  expect_refused(with(kGraph, "4096", "null"), {"step 0", "bytes", "whole number"});
  expect_refused(with(kGraph, "\"inputs\": [0]", "\"inputs\": 0"), {"step 1 ('relu')", "inputs", "not an array"});
  expect_refused(with(kGraph, "[0]", "[\"conv1\"]"), {"step 1", "inputs[0]"});
  expect_refused(with(kGraph, "\"conv1\"", "5"), {"step 0", "name"});
  expect_refused(with(kGraph, "\"outputs\": [1]", "\"outputs\": {}"), {"outputs", "not an array"});
  expect_refused(with(kGraph, ",\n  \"outputs\": [1]", ""), {"outputs", "missing"});
  expect_refused(with(kGraph, "\"encode_time\": 0.1, ", ""), {"step 1", "variants[0]", "encode_time", "missing"});
  expect_refused(R"({"format": "encore-graph-1", "steps": 3, "outputs": []})", {"steps", "not an array"});
  expect_refused(R"({"format": "encore-graph-1", "steps": [3], "outputs": []})", {"step 0", "not an object"});
  expect_refused(R"({"format": "encore-graph-1", "steps": [[]], "outputs": []})", {"step 0", "not an object"});
  expect_refused(R"({"format": "encore-graph-1", "outputs": []})", {"steps", "missing"});
  expect_refused(with(kChain, "\"saved_bytes\": 30,", ""), {"stage 0", "saved_bytes", "missing"});
  expect_refused(with(kChain, "\"input_bytes\": 100,", ""), {"input_bytes", "missing"});
}

TEST(Json, RefusesNegativeAndTooLargeNumbers) {
  expect_refused(with(kGraph, "1.5", "-1.5"), {"step 0 ('conv1')", "time", "negative"});
  expect_refused(with(kGraph, "4096", "-1"), {"step 0 ('conv1')", "bytes", "negative"});
  expect_refused(with(kGraph, "\"temp_bytes\": 7", "\"temp_bytes\": -7"), {"step 0", "temp_bytes", "negative"});
  expect_refused(with(kGraph, "4096", "9223372036854775808"), {"step 0", "bytes", "64 bits"});
  expect_refused(with(kGraph, "4096", "99999999999999999999"), {"step 0", "bytes", "64 bits"});
  expect_refused(with(kGraph, "4096", "9223372036854775807"), {"step 0", "temp_bytes", "64 bits"});
  expect_refused(with(kGraph, "0.1", "-0.1"), {"step 1", "variants[0].encode_time", "negative"});
  expect_refused(with(with(kGraph, "1.5", "1.7e308"), "\"time\": 1,", "\"time\": 1.7e308,"),
                 {"step 1", "time", "infinite"});
  expect_refused(with(kChain, "\"output_bytes\": 10", "\"output_bytes\": -10"),
                 {"stage 0", "output_bytes", "negative"});
  expect_refused(with(kChain, "\"saved_bytes\": 30", "\"saved_bytes\": 3"), {"stage 0", "saved_bytes", "output_bytes"});
  expect_refused(with(kChain, "100", "9223372036854775807"), {"64 bits"});
}

TEST(Json, RefusesStepsThatAreNotThere) {
  expect_refused(with(kGraph, "[0]", "[1]"), {"step 1 ('relu')", "inputs[0]", "not an earlier step"});
  expect_refused(with(kGraph, "[0]", "[-1]"), {"step 1", "inputs[0]", "not an earlier step"});
  expect_refused(with(kGraph, "[0]", "[5000000000]"), {"step 1", "inputs[0]", "not a step"});
  expect_refused(with(kGraph, "\"outputs\": [1]", "\"outputs\": [2]"), {"outputs[0]", "2"});
  expect_refused(R"({"format": "encore-graph-1", "steps": [], "outputs": []})", {"steps", "empty"});
  expect_refused(R"({"format": "encore-chain-1", "input_bytes": 0, "stages": []})", {"stages", "empty"});
}

TEST(Json, ReadsAMillionSteps) {
  std::string text = R"({"format": "encore-graph-1", "steps": [)";
  for (int i = 0; i < 1'000'000; ++i) {
    text += i == 0 ? R"({"time":1,"bytes":1,"inputs":[]})"
                   : R"(,{"time":1,"bytes":1,"inputs":[)" + std::to_string(i - 1) + "]}";
  }
  text += R"(], "outputs": [999999]})";
  const Graph graph = std::get<Graph>(read_problem(text, "million.json"));
  EXPECT_EQ(graph.steps.size(), 1'000'000U);
  EXPECT_EQ(plan(graph, 2).time, 1e6);
  EXPECT_FALSE(plan(graph, 1).feasible);
}

TEST(Json, RefusesBadSchedules) {
  const Graph graph = std::get<Graph>(read_problem(kGraph, "g.json"));
  const auto refused = [&](const std::string& ops, const std::string& word) {
    try {
      read_schedule(R"({"format": "encore-schedule-1", "schedule": )" + ops + "}", "s.json", graph);
      ADD_FAILURE() << "accepted " << ops;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("s.json: schedule"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused("7", "not an array");
  refused("[7]", "schedule[0]");
  refused(R"([["compute", 0], ["compute"]])", "schedule[1]");
  refused(R"([["compute", 2]])", "not one of the 2 steps");
  refused(R"([["compute", -1]])", "step");
  refused(R"([["compute", 1e300]])", "step");
  refused(R"([["paint", 0]])", "paint");
  EXPECT_THROW(read_schedule(kGraph, "s.json", graph), InvalidArgument);
}

// A plain mutation fuzzer: cuts, repeats and changes pieces of valid texts. Nothing but InvalidArgument may come out,
// and what is accepted must hold.
TEST(Json, FuzzedTextsNeverCrashTheReaders) {
  const std::string schedule_text = R"({"format": "encore-schedule-1", "schedule": [["compute", 0], ["compute", 1]]})";
  const Graph valid = std::get<Graph>(read_problem(kGraph, "g.json"));
  const std::vector<std::string> pieces = {
      "-1",      "1e308", "9223372036854775807", "null",   "[",        "]",  "{", "}", "\"", ",",
      "\\u0000", "true",  "\"inputs\":[0]",      "1e-400", "\xc3\x28", "0.5"};
  uint64_t state = 12345;
  const auto roll = [&](size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<size_t>((state >> 33) % below);
  };
  int accepted = 0;
  for (int round = 0; round < 30'000; ++round) {
    const bool is_schedule = round % 3 == 2;
    std::string text = is_schedule ? schedule_text : round % 3 == 0 ? kGraph : kChain;
    for (size_t change = roll(4); change < 4; ++change) {
      const size_t at = roll(text.size() + 1);
      switch (roll(4)) {
        case 0:
          text.insert(at, pieces[roll(pieces.size())]);
          break;
        case 1:
          text.erase(at, roll(12));
          break;
        case 2:
          text.insert(at, text.substr(roll(text.size() + 1), roll(40)));
          break;
        default:
          if (at < text.size()) {
            text[at] = static_cast<char>(roll(256));
          }
      }
    }
    try {
      if (is_schedule) {
        validate(valid, read_schedule(text, "fuzz", valid));
      } else {
        const Problem problem = read_problem(text, "fuzz");
        std::visit([](const auto& p) { check(p); }, problem);
      }
      ++accepted;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string(error.what()).rfind("fuzz", 0), 0U) << error.what();
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace encore::plan
