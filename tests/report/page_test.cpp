// The page: what it says, and that no name can become markup.
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/page.h"
#include "report/run.h"
#include "report/sample.h"
#include "report/text.h"

namespace encore::report {
namespace {

using nlohmann::json;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// What the page's script reads.
json data_of(const std::string& page) {
  const std::string begin = "id=\"data\">";
  const size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(Page, SaysWhatTheRunDid) {
  const std::string page = to_html(sample_run());
  EXPECT_TRUE(holds(page, "<h1><bdi>gpt</bdi></h1>"));
  EXPECT_TRUE(holds(page, "3 steps, budget 512.0 MiB"));
  EXPECT_TRUE(holds(page, ">500.0 <small>MiB</small>"));  // The highest measured peak.
  EXPECT_TRUE(holds(page, "97.7% of the budget"));
  EXPECT_TRUE(holds(page, "\u221249.5%"));  // 404 of 800 MiB.
  EXPECT_TRUE(holds(page, "62.5 ms of it replay, 12.5%"));
  EXPECT_TRUE(holds(page, "needs at least 612 MiB"));
  EXPECT_TRUE(holds(page, "predicted 400.0 MiB, measured 404.0 MiB, 4.0 MiB more."));
  for (const char* section : {"memory", "peak", "tradeoff", "prediction", "values", "steps", "systems"}) {
    EXPECT_TRUE(holds(page, std::string("<section id=\"") + section + "\"")) << section;
    EXPECT_TRUE(holds(page, std::string("href=\"#") + section + "\"")) << section;
  }
}

TEST(Page, LoadsNothing) {
  const std::string page = to_html(sample_run());
  EXPECT_FALSE(holds(page, "src="));
  EXPECT_EQ(count(page, "href="), count(page, "href=\"#") + count(page, "href=\"data:,\""));
  EXPECT_FALSE(holds(page, "url("));
  EXPECT_FALSE(holds(page, "@import"));
  EXPECT_FALSE(holds(page, "http"));
}

TEST(Page, HoldsItsStyleAndScriptAsTheyAre) {
  const auto file = [](const char* name) {
    std::ifstream stream(std::string(ENCORE_REPORT_DIR) + "/" + name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_GT(kPageCss.size(), 1000U);
  EXPECT_EQ(kPageCss, file("page.css"));
  EXPECT_EQ(kPageJs, file("page.js"));
  const std::string page = to_html(report::Run());
  EXPECT_TRUE(holds(page, std::string(kPageCss)));
  EXPECT_TRUE(holds(page, std::string(kPageJs)));
}

TEST(Page, NamesAreTextEverywhere) {
  report::Run run = sample_run();
  const size_t scripts = count(to_html(run), "<script");
  for (const std::string& evil :
       {std::string(kHostile), std::string("</script><script>alert(1)</script>"), std::string("<!--<script>alert(1)"),
        std::string("\"><img src=x onerror=alert(1)>")}) {
    run = sample_run();
    run.name = evil;
    for (RunStep& step : run.steps) {
      step.signature = step.message = evil;
    }
    run.steps[1].mode = evil;
    run.steps[2].mode = "refused";
    for (RunValue& value : run.values) {
      value.name = value.path = value.action = value.why = evil;
    }
    run.systems[0].name = evil;
    run.timelines[0].name = evil;
    const std::string page = to_html(run);
    EXPECT_EQ(count(page, "<script"), scripts) << evil;
    EXPECT_EQ(count(page, "</script"), scripts) << evil;
    EXPECT_FALSE(holds(page, "<img"));
    EXPECT_FALSE(holds(page, "<!--"));
    EXPECT_TRUE(holds(page, "<h1><bdi>" + escape_html(evil) + "</bdi></h1>"));
    const json data = data_of(page);
    EXPECT_EQ(data["tables"]["values"][0][0], evil);
    EXPECT_EQ(data["tables"]["systems"][0][0], evil);
  }
}

TEST(Page, TablesCarryTheExactNumbers) {
  const json tables = data_of(to_html(sample_run()))["tables"];
  EXPECT_EQ(tables["values"], json::parse(R"([["relu_1", "blocks.0", 4096, "kept", 0.001, "small"],
      ["linear_2", "blocks.1", 8388608, "recomputed", null, "cheap for its size"]])"));
  EXPECT_EQ(tables["steps"][1], json::parse(R"([1, "planned", 419430400, 423624704, 838860800, 0.5, 0.0625, null, 12, 3,
      4, 1.5, "float[8]", ""])"));
  EXPECT_EQ(tables["steps"][2],
            json::parse(R"([2, "refused", null, null, null, null, null, null, null, null, null, null,
      "", "needs at least 612 MiB"])"));
}

TEST(Page, WhatRestsIsNamedByItsForm) {
  report::Run run = sample_run();
  run.peak.parts = {{"aten::max_pool2d", "pool", 4096, "packed as narrow"}};
  const std::string page = to_html(run);
  EXPECT_TRUE(holds(page, "aten::max_pool2d, packed as narrow"));
  EXPECT_FALSE(holds(page, "bits</bdi>"));
}

TEST(Page, ColumnsThatSayNothingAreLeftOut) {
  report::Run run = sample_run();
  run.peak.parts.clear();
  for (RunValue& value : run.values) {
    value.path = value.why = "";
    value.price = kUnknown;
  }
  const std::string page = to_html(run);
  EXPECT_EQ(data_of(page)["tables"]["values"][0], json::parse(R"(["relu_1", 4096, "kept"])"));
  EXPECT_FALSE(holds(page, ">Module</button>"));
  EXPECT_TRUE(holds(page, "data-table=\"values\" data-noun=\"value\" data-sorted=\"1\""));
}

TEST(Page, ChartsDrawTheLinesThatThereAre) {
  report::Run run = sample_run();
  const auto lines = [&] { return count(to_html(run), "data-series="); };
  EXPECT_EQ(lines(), 3U + 1U + 2U);
  run.timelines.pop_back();
  EXPECT_EQ(lines(), 2U + 1U + 2U);
  run.curve.points.clear();
  EXPECT_EQ(lines(), 2U + 2U);
  run.steps[1].predicted_peak_bytes = -1;
  EXPECT_EQ(lines(), 2U);
  run.timelines.clear();
  EXPECT_EQ(lines(), 0U);
}

TEST(Page, AnEmptyRunHasAPage) {
  const std::string page = to_html(report::Run());
  EXPECT_TRUE(holds(page, "Unnamed run"));
  EXPECT_TRUE(holds(page, "No steps yet"));
  EXPECT_FALSE(holds(page, "<section id="));
  EXPECT_EQ(data_of(page), json::parse(R"({"charts": {}, "tables": {}})"));
}

TEST(Page, ARefusedStepShowsWhyAndByHowMuch) {
  report::Run run = sample_run();
  run.shown_step = -1;
  run.steps.erase(run.steps.begin(), run.steps.begin() + 2);
  run.steps[0].predicted_peak_bytes = 640 << 20;
  const std::string page = to_html(run);
  EXPECT_TRUE(holds(page, "A step was refused"));
  EXPECT_TRUE(holds(page, "125.0% of the budget"));
  EXPECT_TRUE(holds(page, "Step 2: <bdi>needs at least 612 MiB</bdi>"));
  EXPECT_FALSE(holds(page, "nan"));
}

TEST(Page, APeakAboveTheBudgetIsSaidFirst) {
  report::Run run = sample_run();
  run.steps[1].measured_peak_bytes = run.limit_bytes + 1;
  EXPECT_TRUE(holds(to_html(run), "Over the budget"));
}

TEST(Page, StepsThatLearnAreNotHeldAgainstTheBudget) {
  report::Run run = sample_run();
  run.steps.pop_back();
  run.steps[0].mode = "plain";
  run.steps[0].measured_peak_bytes = 801 << 20;
  const std::string page = to_html(run);
  EXPECT_TRUE(holds(page, "Within the budget"));
  EXPECT_FALSE(holds(page, "Over the budget"));
  EXPECT_TRUE(holds(page,
                    "Kept within 404.0 MiB of 512.0 MiB; the process took 700.0 MiB, with code and libraries; plain "
                    "LibTorch needs 801.0 MiB."));
  EXPECT_TRUE(holds(page, "One step learnt what the model does, without a limit, and needed 801.0 MiB."));
  EXPECT_TRUE(holds(page, "78.9% of the budget"));
  run.steps.pop_back();
  EXPECT_TRUE(holds(to_html(run), "Only learnt so far"));
}

TEST(Page, SameBitsAreSaidWhereEveryWayGivesThem) {
  report::Run run = sample_run();
  EXPECT_FALSE(holds(to_html(run), "the same bits"));
  run.systems[1].bit_identical = true;
  EXPECT_TRUE(holds(to_html(run), "Every way that was compared gives the same bits."));
  // The way that has this run's peak is what its time is compared by.
  run.systems[1].peak_bytes = 500 << 20;
  EXPECT_TRUE(holds(to_html(run), "; a step takes 2.5% more time than plain. Every way"));
}

TEST(Page, NotesSayWhatTheyMeanAndWhatToDo) {
  report::Run run = sample_run();
  run.steps[0].index = 10;
  run.steps[1].index = 11;
  run.steps[0].message = "left the plan at aten::detach_ (op 0 of 'step')";
  run.steps[1].message = "left the plan at aten::add (op 3 of 'step')";
  const std::string page = to_html(run);
  EXPECT_TRUE(holds(page, "2 steps did not go by a plan</h2><p>The step did something else"));
  EXPECT_TRUE(holds(page, "outside of budget.step()"));
  EXPECT_TRUE(holds(page, "Step 11: <bdi>left the plan at aten::add (op 3 of"));
}

TEST(Page, FirstStepsWithoutAPlanAreNoNotice) {
  report::Run run = sample_run();
  run.steps[1].message = "left the plan at aten::detach_ (op 0 of 'step')";
  const std::string page = to_html(run);
  EXPECT_FALSE(holds(page, "did not go by a plan"));
  EXPECT_TRUE(holds(page, "since an optimizer makes its state then: step 1 made room as it was needed"));
  run.steps[1].message = "nothing was learnt: an op is hidden";
  EXPECT_TRUE(holds(to_html(run), "1 step did not go by a plan"));
}

TEST(Page, WhatWasLiveAtThePeakIsSummedByModuleAndOp) {
  report::Run run = sample_run();
  const std::string page = to_html(run);
  EXPECT_TRUE(holds(page, "What is in memory 250 ms into the step, when it needs most, while aten::mm runs"));
  EXPECT_EQ(data_of(page)["tables"]["peak"], json::parse(R"([["tensors", "", 157286400, 0.375, 1, "outside"],
                ["aten::gelu", "blocks.0.mlp", 157286400, 0.375, 2, "kept"],
                ["aten::mm", "blocks.1.attention.out", 104857600, 0.25, 1, "scratch"]])"));
  EXPECT_TRUE(
      holds(page, "<summary><span class=\"name\"><bdi>blocks</bdi> <span>3 values</span></span><b>250.0 MiB</b>"));
  EXPECT_TRUE(
      holds(page, "<summary><span class=\"name\"><bdi>0.mlp</bdi> <span>2 values</span></span><b>150.0 MiB</b>"));
  EXPECT_TRUE(holds(page, "<bdi>aten::mm, needed while it runs</bdi>"));
  for (const char* name : {"parameters, gradients, state", "blocks.0", "blocks.1"}) {
    EXPECT_TRUE(holds(page, std::string("<bdi>") + name + "</bdi>")) << name;
  }
  run.peak.parts.clear();
  EXPECT_FALSE(holds(to_html(run), "Live at the peak"));
}

TEST(Page, TheShownStepIsTheOneAskedForOrTheLastThatRan) {
  report::Run run = sample_run();
  EXPECT_EQ(shown_step(run)->index, 1);
  run.shown_step = 0;
  EXPECT_EQ(shown_step(run)->index, 0);
  run.shown_step = -1;
  EXPECT_EQ(shown_step(run)->index, 1);
  run.shown_step = 99;
  EXPECT_EQ(shown_step(run)->index, 1);
  run.steps.clear();
  EXPECT_EQ(shown_step(run), nullptr);
}

}  // namespace
}  // namespace encore::report
