// What a budget tells of its run: JSON, a page, a trace, names.
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "budget/net.h"
#include "support/torch_pch.h"

namespace encore::test {
namespace {

TEST(Budget, TellsTheWholeRunAsJsonAndAsAPage) {
  Net net;
  MemoryBudget budget = MemoryBudget::fraction(0.5);
  EXPECT_NE(budget.run_json("empty").find("encore-run-1"), std::string::npos);
  for (int i = 0; i < 4; ++i) {
    auto step = budget.step();
    const at::Tensor loss = net.loss();
    loss.backward();
    step.set_loss(loss.item<double>());
    net.forget();
  }
  const std::string json = budget.run_json("net <script>", {{"plain", 12345, 0.5, true}});
  for (const char* part : {"encore-run-1", "\"planned\"", "\"measured\"", "\"plain\"", "\"recomputed\"", "12345",
                           "aten::tanh", "TanhBackward", "\"replay\"", "made before the step", "\"loss\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << part;
  }
  const std::string page = budget.run_html("net <script>");
  EXPECT_NE(page.find("net &lt;script&gt;"), std::string::npos);
}

/// Plans are made from times of earlier steps, in which the machine may have been busy with something else.
TEST(Budget, PlannedMemoryIsShownOnTheClockOfTheStepThatIsShown) {
  using nlohmann::json;
  Net net;
  MemoryBudget budget = MemoryBudget::fraction(0.5);
  for (int i = 0; i < 4; ++i) {
    const auto step = budget.step();
    net.loss().backward();
    net.forget();
  }
  const json run = json::parse(budget.run_json("net"));
  const json& shown = run["steps"][run["shown_step"].get<size_t>()];
  const double seconds = shown["step_seconds"];
  std::map<std::string, double> last;
  for (const json& timeline : run["timelines"]) {
    last[timeline["name"]] = timeline["points"].back()["seconds"];
  }
  EXPECT_LE(last["planned"], seconds);
  EXPECT_LE(last["plain"], seconds);
  EXPECT_GT(last["planned"], run["backward_begins_seconds"].get<double>());
  EXPECT_LE(run["peak"]["seconds"].get<double>(), last["planned"]);
  EXPECT_DOUBLE_EQ(run["curve"]["points"][run["curve"]["chosen"].get<size_t>()]["seconds"].get<double>(), seconds);
}

/// Perfetto draws the events of one thread inside each other; those that overlap without nesting it drops.
TEST(Budget, TracedEventsNest) {
  using nlohmann::json;
  Net net;
  // Steps by plan, and one that evicts by itself.
  for (const int steps : {4, 1}) {
    const MemoryScope plain;
    net.loss().backward();
    net.forget();
    MemoryBudget budget(plain.start_bytes() + plain.peak_growth_bytes() * 6 / 10);
    for (int i = 0; i < steps; ++i) {
      const auto step = budget.step();
      net.loss().backward();
      net.forget();
    }
    struct Span {
      double start, end;
    };
    std::map<int64_t, std::vector<Span>> threads;
    std::set<std::string> categories;
    const json run = json::parse(budget.run_json("net"));
    for (const json& event : run["events"]) {
      const double start = event["start_us"];
      threads[event["thread"]].push_back({start, start + event["duration_us"].get<double>()});
      categories.insert(event["category"]);
    }
    EXPECT_TRUE(steps > 1 || categories.count("pack") > 0);
    categories.erase("pack");  // a plan packs masks where it is faster than drawing them
    EXPECT_EQ(categories, steps == 1 ? (std::set<std::string>{"backward", "evict", "forward", "replay"})
                                     : (std::set<std::string>{"backward", "forward", "plan", "replay"}));
    for (auto& [thread, spans] : threads) {
      std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
        return a.start < b.start || (a.start == b.start && a.end > b.end);
      });
      std::vector<Span> open;
      for (const Span& span : spans) {
        while (!open.empty() && open.back().end <= span.start) {
          open.pop_back();
        }
        EXPECT_TRUE(open.empty() || span.end <= open.back().end) << span.start << " us on thread " << thread;
        open.push_back(span);
      }
    }
  }
}

}  // namespace
}  // namespace encore::test
