// The pieces of the page that to_html puts together.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/chart.h"
#include "report/run.h"

namespace encore::report {

/// The page's style and script, from page.css and page.js. CMake embeds them.
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

/// The step that the page shows in detail; null if there are none.
const RunStep* shown_step(const Run& run);

/// The charts; none where the run has nothing to draw.
std::optional<Chart> memory_chart(const Run& run);
std::optional<Chart> curve_chart(const Run& run);
std::optional<Chart> prediction_chart(const Run& run);

/// How well the predictions did, in a sentence.
std::string prediction_summary(const Run& run);

/// The head of the page's body: name, verdict, what went wrong, headline figures.
std::string page_header(const Run& run);

/// What the run's steps have to say: refused ones as an alarm, those that left their plan as a note.
std::string notices(const Run& run);
/// Of the first steps that went by no plan, in a sentence: they are as usual, and no notice.
std::string about_the_beginning(const Run& run);

/// A table that the page's script fills from `rows`, an array of arrays of cells.
struct DrawnTable {
  std::string html;
  std::string rows;
};
DrawnTable values_table(const Run& run);
DrawnTable steps_table(const Run& run);
DrawnTable systems_table(const Run& run);
/// What was in memory at the peak, summed by module, op and kind.
DrawnTable peak_table(const Run& run);

/// How many bytes met which action, as a bar with its legend.
std::string actions_bar(const Run& run);
/// How many bytes of the peak are which module's, likewise.
std::string peak_bar(const Run& run);
/// The same module by module, down to ops, to be unfolded.
std::string peak_tree(const Run& run);

}  // namespace encore::report
