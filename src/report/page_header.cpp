// The first screen of the page: name, verdict, what was kept, headline figures.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kUnknown;
}

// A step that learns runs without a limit: its peak is what plain LibTorch needs, and no promise was made for it. What
// rests when a step is refused may be above the limit: that is why.
bool is_governed(const Run& run, const RunStep& step) {
  return run.limit_bytes < 0 || (step.mode != "plain" && step.mode != "refused");
}

int64_t highest_peak(const Run& run) {
  int64_t peak = -1;
  for (const RunStep& step : run.steps) {
    peak = is_governed(run, step) ? std::max(peak, step.measured_peak_bytes) : peak;
  }
  return peak;
}

/// What plain LibTorch needs: as computed for the shown step, or as the steps that learnt did.
int64_t plain_peak(const Run& run) {
  const RunStep* shown = shown_step(run);
  int64_t peak = shown != nullptr ? shown->plain_peak_bytes : -1;
  for (const RunStep& step : run.steps) {
    peak = step.mode == "plain" ? std::max(peak, step.measured_peak_bytes) : peak;
  }
  return peak;
}

/// How much longer a step takes than plain's, where both were compared in turn; unknown otherwise.
double extra_time(const Run& run, int64_t peak) {
  double plain = kUnknown;
  double own = kUnknown;
  for (const System& system : run.systems) {
    const bool is_plain = system.name == "plain" || system.name.rfind("Plain", 0) == 0;
    const double miss = static_cast<double>(system.peak_bytes - peak) / static_cast<double>(peak);
    if (is_plain) {
      plain = system.step_seconds;
    } else if (std::abs(miss) < 0.01 && !(system.step_seconds >= own)) {
      own = system.step_seconds;
    }
  }
  return own / plain - 1;
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
    return pill("neutral", run.limit_bytes >= 0 && plain_peak(run) >= 0 ? "Only learnt so far" : "Nothing measured");
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

/// What a user wants to know, in a sentence; nothing where nothing ran within a budget.
std::string story(const Run& run) {
  const int64_t peak = highest_peak(run);
  if (run.limit_bytes < 0 || peak < 0 || peak > run.limit_bytes) {
    return "";
  }
  std::string text = "Kept within " + bytes_text(peak) + " of " + bytes_text(run.limit_bytes);
  if (run.process_bytes >= 0) {
    text += "; the process took " + bytes_text(run.process_bytes) + ", with code and libraries";
    text += run.book_bytes >= 0 ? " and " + bytes_text(run.book_bytes) + " of Encore's own books" : "";
  }
  if (const int64_t plain = plain_peak(run); plain >= 0) {
    text += "; plain LibTorch needs " + bytes_text(plain);
  }
  if (const double extra = extra_time(run, peak); std::isfinite(extra)) {
    text += std::abs(extra) < 0.005 ? "; as fast as plain"
                                    : "; a step takes " + percent_text(std::abs(extra)) +
                                          (extra < 0 ? " less" : " more") + " time than plain";
  }
  const bool all_same = run.systems.size() > 1 && std::all_of(run.systems.begin(), run.systems.end(),
                                                              [](const System& s) { return s.bit_identical; });
  return text + (all_same ? ". Every way that was compared gives the same bits." : ".");
}

/// The steps that learnt, apart from those that are held to the budget.
std::string about_learning(const Run& run) {
  int64_t count = 0;
  int64_t peak = -1;
  for (const RunStep& step : run.steps) {
    if (!is_governed(run, step)) {
      ++count;
      peak = std::max(peak, step.measured_peak_bytes);
    }
  }
  if (count == 0 || peak <= run.limit_bytes) {
    return "";
  }
  return (count == 1 ? std::string("One step") : count_text(count) + " steps") +
         " learnt what the model does, without a limit, and needed " + bytes_text(peak) + ".";
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

std::string kinds_of_step(int64_t count) {
  return count == 1 ? "1 kind of step" : count_text(count) + " kinds of steps";
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
  return figure(
      "Planning", seconds_text(seconds > 0 ? seconds : kUnknown),
      signatures.empty() ? "nothing was planned" : "for " + kinds_of_step(static_cast<int64_t>(signatures.size())));
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
                    "</div><p class=\"lead\">" + escape_html(subtitle(run)) + "</p>";
  for (const std::string& text : {story(run), about_learning(run), about_the_beginning(run)}) {
    out += text.empty() ? "" : "<p class=\"lead\">" + escape_html(text) + "</p>";
  }
  out += "</header>\n" + notices(run);
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
