// A run as one self-contained page.
#include "report/page.h"

#include "report/text.h"

namespace encore::report {
namespace {

// The sections of the page, the links to them, and the data that its script reads.
class Page {
 public:
  void section(const std::string& id, const std::string& title, const std::string& intro, const std::string& body) {
    ++count_;
    links_ += "<li><a href=\"#" + id + "\">" + title + "</a></li>";
    sections_ += "<section id=\"" + id + "\" aria-labelledby=\"" + id + "-head\"><h2 id=\"" + id + "-head\">" + title +
                 "</h2>" + (intro.empty() ? "" : "<p class=\"intro\">" + escape_html(intro) + "</p>") + "\n" + body +
                 "</section>\n";
  }

  void chart(const std::string& id, const std::string& title, const std::string& intro,
             const std::optional<Chart>& chart) {
    if (!chart.has_value()) {
      return;
    }
    const DrawnChart drawn = draw(*chart);
    charts_ += (charts_.empty() ? "\"" : ",\"") + chart->id + "\":" + drawn.data;
    section(id, title, intro, "<div class=\"card\">" + drawn.html + "</div>");
  }

  void table(const std::string& id, const std::string& title, const std::string& intro, const std::string& before,
             const DrawnTable& table) {
    tables_ += (tables_.empty() ? "\"" : ",\"") + id + "\":" + table.rows;
    section(id, title, intro, before + table.html);
  }

  /// Nothing if there is but one section.
  [[nodiscard]] std::string contents() const {
    return count_ < 2 ? "" : "<nav class=\"contents\" aria-label=\"Sections\"><ul>" + links_ + "</ul></nav>\n";
  }
  [[nodiscard]] std::string sections() const { return sections_; }
  [[nodiscard]] std::string data() const { return "{\"charts\":{" + charts_ + "},\"tables\":{" + tables_ + "}}"; }

 private:
  int count_ = 0;
  std::string links_;
  std::string sections_;
  std::string charts_;
  std::string tables_;
};

std::string about_the_step(const Run& run) {
  const RunStep* step = shown_step(run);
  if (step == nullptr) {
    return "";
  }
  return "Step " + count_text(step->index) + ", " + step->mode + ".";
}

}  // namespace

std::string to_html(const Run& run) {
  Page page;
  page.chart("memory", "Memory over the step",
             about_the_step(run) + " All tensor bytes, from the beginning of the step to its end.", memory_chart(run));
  if (!run.peak.parts.empty()) {
    page.table("peak", "Live at the peak",
               "What is in memory " + seconds_text(run.peak.seconds) + " into the step, when it needs most" +
                   (run.peak.during.empty() ? "" : ", while " + run.peak.during + " runs") +
                   ": by module, and as a table by op.",
               peak_bar(run) + peak_tree(run), peak_table(run));
  }
  page.chart("tradeoff", "Time against memory",
             "What the step would take within other budgets; less memory costs more replay.", curve_chart(run));
  page.chart("prediction", "Predicted against measured", prediction_summary(run), prediction_chart(run));
  if (!run.values.empty()) {
    page.table("values", "Values",
               about_the_step(run) +
                   " Each value that backward may need, and what became of it. The price is the time "
                   "to compute it again.",
               actions_bar(run), values_table(run));
  }
  if (!run.steps.empty()) {
    page.table("steps", "Steps", "Peaks, times and what was replayed, step by step.", "", steps_table(run));
  }
  if (!run.systems.empty()) {
    page.table("systems", "Systems compared", "The same step, run in other ways.", "", systems_table(run));
  }
  const std::string title = escape_html(run.name.empty() ? "Unnamed run" : run.name);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>" +
      title + " \u2013 Encore</title>\n<style>\n";
  out += kPageCss;
  out +=
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<main id=\"main\" "
      "tabindex=\"-1\">\n" +
      page_header(run);
  out += page.contents() + page.sections() +
         "</main>\n<footer><p>Made from run data in the format encore-run-1.</p></footer>\n" +
         "<script type=\"application/json\" id=\"data\">" + escape_script_json(page.data()) + "</script>\n<script>\n";
  out += kPageJs;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace encore::report
