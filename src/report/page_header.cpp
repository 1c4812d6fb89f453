// The first screen of the page: name, verdict, notices, headline figures.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

constexpr size_t kNotices = 3;

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kUnknown;
}

int64_t highest_peak(const Run& run) {
  int64_t peak = -1;
  for (const RunStep& step : run.steps) {
    peak = std::max(peak, step.measured_peak_bytes);
  }
  return peak;
}

std::string verdict(const Run& run) {
  const int64_t peak = highest_peak(run);
  const bool refused =
      std::any_of(run.steps.begin(), run.steps.end(), [](const RunStep& step) { return step.mode == "refused"; });
  const auto pill = [](const char* style, const char* text) {
    return std::string("<p class=\"verdict ") + style + "\">" + text + "</p>";
  };
  if (run.limit_bytes >= 0 && peak > run.limit_bytes) {
    return pill("bad", "Over the budget");
  }
  if (refused) {
    return pill("bad", "A step was refused");
  }
  if (run.steps.empty() || peak < 0) {
    return pill("neutral", "Nothing measured");
  }
  return run.limit_bytes >= 0 ? pill("good", "Within the budget") : pill("neutral", "No budget");
}

std::string subtitle(const Run& run) {
  std::string text = counted(static_cast<int64_t>(run.steps.size()), "step");
  text += run.limit_bytes >= 0 ? ", budget " + bytes_text(run.limit_bytes) : ", no budget";
  if (run.resting_bytes >= 0) {
    text += ", " + bytes_text(run.resting_bytes) + " resting between steps";
  }
  return text + ".";
}

// Steps that say something, in a box: refused ones as an alarm, those that fell back as a note.
std::string notices(const Run& run, bool refused) {
  std::vector<const RunStep*> steps;
  for (const RunStep& step : run.steps) {
    if (refused ? step.mode == "refused" : step.mode != "refused" && !step.message.empty()) {
      steps.push_back(&step);
    }
  }
  if (steps.empty()) {
    return "";
  }
  const auto count = static_cast<int64_t>(steps.size());
  std::string out = std::string("<section class=\"notice ") + (refused ? "bad" : "note") + "\"><h2>" +
                    counted(count, "step") +
                    (refused ? (count == 1 ? " was refused" : " were refused") : " fell back") + "</h2><ul>";
  for (size_t k = 0; k < std::min(kNotices, steps.size()); ++k) {
    out += "<li>Step " + count_text(steps[k]->index) + ": <bdi>" +
           escape_html(steps[k]->message.empty() ? "no reason was recorded" : steps[k]->message) + "</bdi></li>";
  }
  if (steps.size() > kNotices) {
    out += "<li>" + count_text(count - static_cast<int64_t>(kNotices)) +
           " more, in the <a href=\"#steps\">table of steps</a></li>";
  }
  return out + "</ul></section>\n";
}

std::string figure(const char* name, const std::string& value, const std::string& note) {
  // "498.2 MiB": the unit is set smaller than the number.
  const size_t space = value.find(' ');
  const std::string number = value.substr(0, space);
  const std::string unit =
      space == std::string::npos ? "" : " <small>" + escape_html(value.substr(space + 1)) + "</small>";
  return std::string("<div><dt>") + name + "</dt><dd class=\"headline\">" + escape_html(number) + unit + "</dd><dd>" +
         escape_html(note) + "</dd></div>\n";
}

std::string peak_figure(const Run& run) {
  const int64_t peak = highest_peak(run);
  std::string note = "no budget was set";
  if (peak < 0) {
    note = "no step was measured";
  } else if (run.limit_bytes >= 0) {
    note = percent_text(ratio(peak, run.limit_bytes)) + " of the budget";
  }
  return figure("Peak memory", bytes_text(peak), note);
}

std::string plain_figure(const RunStep& step) {
  const double part = step.measured_peak_bytes >= 0 ? ratio(step.measured_peak_bytes, step.plain_peak_bytes) : kUnknown;
  return figure("Against plain", percent_text(part - 1, true),
                step.plain_peak_bytes >= 0 ? "the plain peak is " + bytes_text(step.plain_peak_bytes)
                                           : "the plain peak is unknown");
}

std::string time_figure(const RunStep& step) {
  if (!(step.step_seconds > 0)) {
    return figure("Step time", seconds_text(kUnknown), "the step did not run");
  }
  return figure("Step time", seconds_text(step.step_seconds),
                step.replay_seconds > 0 ? seconds_text(step.replay_seconds) + " of it replay, " +
                                              percent_text(step.replay_seconds / step.step_seconds)
                                        : "none of it replay");
}

std::string prediction_figure(const Run& run) {
  double worst = kUnknown;
  int64_t count = 0;
  for (const RunStep& step : run.steps) {
    if (step.predicted_peak_bytes < 0 || step.measured_peak_bytes < 0) {
      continue;
    }
    ++count;
    const double miss = ratio(step.measured_peak_bytes, step.predicted_peak_bytes) - 1;
    if (!(std::abs(miss) <= std::abs(worst))) {
      worst = miss;
    }
  }
  const std::string note = count == 0 ? "no step was predicted" : "largest of " + counted(count, "step");
  return figure("Prediction error", worst == 0 ? "none" : percent_text(worst, true), note);
}

std::string planning_figure(const Run& run) {
  double seconds = 0;
  std::set<std::string> signatures;
  for (const RunStep& step : run.steps) {
    if (step.planning_seconds > 0) {
      seconds += step.planning_seconds;
      signatures.insert(step.signature);
    }
  }
  return figure("Planning", seconds_text(seconds > 0 ? seconds : kUnknown),
                signatures.empty() ? "nothing was planned"
                                   : "for " + counted(static_cast<int64_t>(signatures.size()), "signature"));
}

std::string replay_figure(const RunStep& step) {
  return figure("Replayed ops", count_text(step.ops_replayed),
                counted(step.values_kept, "value") + " kept, " + count_text(step.values_dropped) + " dropped");
}

// A step that did not run has no figures but those for which it was refused.
std::string refusal_figures(const Run& run, const RunStep& step) {
  const bool comparable = run.limit_bytes > 0 && step.predicted_peak_bytes >= 0;
  return figure("Budget", bytes_text(run.limit_bytes), run.limit_bytes >= 0 ? "the most it may use" : "none was set") +
         figure("Predicted peak", bytes_text(step.predicted_peak_bytes),
                comparable ? percent_text(ratio(step.predicted_peak_bytes, run.limit_bytes)) + " of the budget"
                           : "no prediction to compare") +
         figure("Resting", bytes_text(run.resting_bytes), "held between steps");
}

std::string headline_figures(const Run& run, const RunStep& step) {
  if (step.mode == "refused") {
    return refusal_figures(run, step);
  }
  return peak_figure(run) + plain_figure(step) + time_figure(step) + prediction_figure(run) + planning_figure(run) +
         replay_figure(step);
}

}  // namespace

std::string page_header(const Run& run) {
  std::string out = "<header><p class=\"eyebrow\">Encore run report</p><div class=\"title\"><h1><bdi>" +
                    escape_html(run.name.empty() ? "Unnamed run" : run.name) + "</bdi></h1>" + verdict(run) +
                    "</div><p class=\"lead\">" + escape_html(subtitle(run)) + "</p></header>\n";
  out += notices(run, true) + notices(run, false);
  const RunStep* step = shown_step(run);
  if (step == nullptr) {
    return out +
           "<section class=\"notice note\"><h2>No steps yet</h2><p>This run holds no steps. Its figures appear "
           "here once a step has been recorded.</p></section>\n";
  }
  return out + "<section aria-label=\"Headline figures\"><dl class=\"figures\">\n" + headline_figures(run, *step) +
         "</dl></section>\n";
}

}  // namespace encore::report
