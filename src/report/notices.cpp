// What the steps have to say, in words that tell what to do about it.
#include <algorithm>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

constexpr size_t kNotices = 3;
// An optimizer makes its state in the first step, so the second is not like it; with a step that learns, one later.
constexpr int64_t kBeginning = 3;

/// What a message means, and what to do; the message itself is shown as well.
struct Meaning {
  const char* begins;  ///< How such messages begin.
  const char* means;
};

constexpr Meaning kMeanings[] = {
    {"left the plan",
     "The step did something else than the step that its plan was made for: another shape, another branch. From there "
     "on room was made as it was needed, within the same budget, which takes longer. If it goes on, the steps are of "
     "many kinds: let those that differ (evaluation, logging) run outside of budget.step()."},
    {"nothing was learnt",
     "Something in the step can't be recorded, so no plan was made from it, and room was made as it was needed. Move "
     "what the message names out of budget.step(), or leave it: the budget is kept all the same."},
    {"an exception",
     "An exception of the program left the step before its end. Nothing was learnt from it, and the next step is not "
     "touched by it."},
};

const char* meaning_of(const std::string& message) {
  for (const Meaning& meaning : kMeanings) {
    if (message.rfind(meaning.begins, 0) == 0) {
      return meaning.means;
    }
  }
  return nullptr;
}

std::string item(const RunStep& step) {
  return "<li>Step " + count_text(step.index) + ": <bdi>" +
         escape_html(step.message.empty() ? "no reason was recorded" : step.message) + "</bdi></li>";
}

// Steps that mean the same, under one explanation.
std::string notice(const char* style, const std::string& head, const char* means,
                   const std::vector<const RunStep*>& steps) {
  std::string out = std::string("<section class=\"notice ") + style + "\"><h2>" + head + "</h2>";
  if (means != nullptr) {
    out += "<p>" + escape_html(means) + "</p>";
  }
  out += "<ul>";
  for (size_t k = 0; k < std::min(kNotices, steps.size()); ++k) {
    out += item(*steps[k]);
  }
  if (steps.size() > kNotices) {
    out += "<li>" + count_text(static_cast<int64_t>(steps.size() - kNotices)) +
           " more, in the <a href=\"#steps\">table of steps</a></li>";
  }
  return out + "</ul></section>\n";
}

bool is_of_the_beginning(const RunStep& step) {
  return step.index < kBeginning && meaning_of(step.message) == kMeanings[0].means;
}

}  // namespace

std::string about_the_beginning(const Run& run) {
  std::string numbers;
  for (const RunStep& step : run.steps) {
    if (step.mode != "refused" && is_of_the_beginning(step)) {
      numbers += (numbers.empty() ? "" : " and ") + count_text(step.index);
    }
  }
  return numbers.empty() ? ""
                         : "The first steps are not like the ones after them, since an optimizer makes its state then: "
                           "step " +
                               numbers + " made room as it was needed, without a plan.";
}

std::string notices(const Run& run) {
  std::vector<const RunStep*> refused;
  std::vector<std::pair<const char*, std::vector<const RunStep*>>> others;
  for (const RunStep& step : run.steps) {
    if (step.mode == "refused") {
      refused.push_back(&step);
    } else if (!step.message.empty() && !is_of_the_beginning(step)) {
      const char* means = meaning_of(step.message);
      const auto same = std::find_if(others.begin(), others.end(), [&](const auto& o) { return o.first == means; });
      (same != others.end() ? *same : others.emplace_back(means, std::vector<const RunStep*>()))
          .second.push_back(&step);
    }
  }
  std::string out;
  if (!refused.empty()) {
    const auto count = static_cast<int64_t>(refused.size());
    out += notice("bad", counted(count, "step") + (count == 1 ? " was refused" : " were refused"), nullptr, refused);
  }
  for (const auto& [means, steps] : others) {
    out += notice("note", counted(static_cast<int64_t>(steps.size()), "step") + " did not go by a plan", means, steps);
  }
  return out;
}

}  // namespace encore::report
