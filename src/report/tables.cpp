// The page's tables: heads as HTML, rows as data for the page's script.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

using json = nlohmann::ordered_json;

/// `kind` tells the script how to write and sort a column's cells.
struct Column {
  const char* name;
  const char* kind;
};

// null is unknown: it is shown as a dash and sorted last.
json bytes_cell(int64_t bytes) {
  return bytes < 0 ? json(nullptr) : json(bytes);
}

json number_cell(double value) {
  return std::isfinite(value) ? json(value) : json(nullptr);
}

bool is_blank(const json& cell) {
  return cell.is_null() || (cell.is_string() && cell.get_ref<const std::string&>().empty());
}

// Columns in which no row says anything are left out, but never the first, which names the row.
void drop_blank_columns(std::vector<Column>* columns, json* rows) {
  for (size_t column = columns->size(); column-- > 1;) {
    if (std::all_of(rows->begin(), rows->end(), [&](const json& row) { return is_blank(row[column]); })) {
      columns->erase(columns->begin() + static_cast<std::ptrdiff_t>(column));
      for (json& row : *rows) {
        row.erase(column);
      }
    }
  }
}

/// A table's words. All are ours, so they are not escaped.
struct Words {
  std::string id;
  std::string caption;
  std::string noun;
  const char* sorted = "";  ///< The column that rows are sorted by at first; none: as given.
  bool descending = false;
};

DrawnTable draw(const Words& words, std::vector<Column> columns, json rows) {
  drop_blank_columns(&columns, &rows);
  std::string heads;
  int sorted = -1;
  for (size_t k = 0; k < columns.size(); ++k) {
    heads += std::string("<th scope=\"col\" aria-sort=\"none\" data-kind=\"") + columns[k].kind +
             "\"><button type=\"button\">" + columns[k].name + "</button></th>";
    sorted = std::string_view(columns[k].name) == words.sorted ? static_cast<int>(k) : sorted;
  }
  std::string out = "<div class=\"table\" data-table=\"" + words.id + "\" data-noun=\"" + words.noun +
                    "\" data-sorted=\"" + std::to_string(sorted) + "\" data-descending=\"" +
                    (words.descending ? "true" : "false") +
                    "\">\n<div class=\"tools\"><label>Filter <input type=\"search\" autocomplete=\"off\" "
                    "spellcheck=\"false\" placeholder=\"any text\"></label><p class=\"count\" "
                    "role=\"status\"></p></div>\n";
  out += "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"" + words.id +
         "-caption\"><table><caption id=\"" + words.id + "-caption\" class=\"visually-hidden\">" + words.caption +
         "</caption><thead><tr>" + heads + "</tr></thead><tbody></tbody></table></div>\n";
  out += "<noscript><p>The rows of this table need JavaScript; they are also in the run's JSON file.</p></noscript>\n";
  out +=
      "<nav class=\"pages\" aria-label=\"Pages: " + words.caption +
      "\" hidden><button type=\"button\">Previous</button><p></p><button type=\"button\">Next</button></nav></div>\n";
  return {out, rows.dump(-1, ' ', false, json::error_handler_t::replace)};
}

/// A part of a bar.
struct Share {
  std::string name;
  int64_t count = 0;
  double bytes = 0;
};

void add(std::map<std::string, Share>& shares, const std::string& name, int64_t bytes) {
  Share& share = shares[name];
  share.name = name;
  ++share.count;
  share.bytes += static_cast<double>(bytes);
}

/// A bar with its legend, the largest share first.
std::string bar_of(const std::map<std::string, Share>& by_name) {
  double total = 0;
  std::vector<Share> shares;
  shares.reserve(by_name.size());
  for (const auto& entry : by_name) {
    shares.push_back(entry.second);
    total += entry.second.bytes;
  }
  std::stable_sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) { return a.bytes > b.bytes; });
  constexpr size_t kShares = 5;
  if (shares.size() > kShares) {
    Share& other = shares[kShares - 1];
    other.name = "other";
    for (size_t k = kShares; k < shares.size(); ++k) {
      other.count += shares[k].count;
      other.bytes += shares[k].bytes;
    }
    shares.resize(kShares);
  }
  std::string bar;
  std::string legend;
  int rank = 0;
  for (const Share& share : shares) {
    // "kept" has one colour in every report; the others take theirs by rank.
    const std::string style = share.name == "kept" ? "kept" : "share-" + std::to_string(rank++);
    const double part = total > 0 ? share.bytes / total : 1.0 / static_cast<double>(shares.size());
    bar += "<span class=\"" + style + "\" style=\"flex-grow:" + number_text("%.4f", part) + "\"></span>";
    legend += "<li><span class=\"key " + style + "\"></span><bdi>" + escape_html(share.name) + "</bdi> <b>" +
              bytes_text(static_cast<int64_t>(std::min(share.bytes, 9.2e18))) + "</b> <span>in " +
              counted(share.count, "value") + "</span></li>";
  }
  return "<div class=\"bar\" aria-hidden=\"true\">" + bar + "</div><ul class=\"legend\">" + legend + "</ul>\n";
}

}  // namespace

DrawnTable values_table(const Run& run) {
  json rows = json::array();
  for (const RunValue& value : run.values) {
    rows.push_back({value.name, value.path, value.bytes, value.action, number_cell(value.price), value.why});
  }
  return draw({"values", "Values of the step", "value", "Size", true},
              {{"Value", "text"},
               {"Module", "text"},
               {"Size", "bytes"},
               {"Action", "pill"},
               {"Price", "seconds"},
               {"Why", "text"}},
              std::move(rows));
}

DrawnTable steps_table(const Run& run) {
  json rows = json::array();
  for (const RunStep& step : run.steps) {
    const bool ran = step.mode != "refused";
    const auto seconds = [&](double value) { return ran ? number_cell(value) : json(nullptr); };
    const auto count = [&](int64_t value) { return ran ? json(value) : json(nullptr); };
    rows.push_back({step.index, step.mode, bytes_cell(step.predicted_peak_bytes), bytes_cell(step.measured_peak_bytes),
                    bytes_cell(step.plain_peak_bytes), seconds(step.step_seconds), seconds(step.replay_seconds),
                    step.planning_seconds > 0 ? number_cell(step.planning_seconds) : json(nullptr),
                    count(step.ops_replayed), count(step.values_kept), count(step.values_dropped),
                    number_cell(step.loss), step.signature, step.message});
  }
  return draw({"steps", "Steps of the run", "step", "Step", false},
              {{"Step", "count"},
               {"Mode", "pill"},
               {"Predicted", "bytes"},
               {"Measured", "bytes"},
               {"Plain", "bytes"},
               {"Time", "seconds"},
               {"Replay", "seconds"},
               {"Planning", "seconds"},
               {"Ops replayed", "count"},
               {"Kept", "count"},
               {"Dropped", "count"},
               {"Loss", "number"},
               {"Signature", "text"},
               {"Message", "text"}},
              std::move(rows));
}

DrawnTable systems_table(const Run& run) {
  json rows = json::array();
  for (const System& system : run.systems) {
    rows.push_back({system.name, bytes_cell(system.peak_bytes),
                    system.step_seconds > 0 ? number_cell(system.step_seconds) : json(nullptr),
                    system.bit_identical ? "yes" : "no"});
  }
  return draw({"systems", "Systems compared", "system", "", false},
              {{"System", "text"}, {"Peak", "bytes"}, {"Step time", "seconds"}, {"Gradients bit-identical", "pill"}},
              std::move(rows));
}

DrawnTable peak_table(const Run& run) {
  struct Sum {
    int64_t bytes = 0;
    int64_t count = 0;
  };
  std::map<std::array<std::string, 3>, Sum> sums;
  double total = 0;
  for (const LivePart& part : run.peak.parts) {
    Sum& sum = sums[{part.path, part.name, part.kind}];
    sum.bytes += part.bytes;
    ++sum.count;
    total += static_cast<double>(part.bytes);
  }
  json rows = json::array();
  for (const auto& [key, sum] : sums) {
    rows.push_back({key[1], key[0], sum.bytes, total > 0 ? json(static_cast<double>(sum.bytes) / total) : json(nullptr),
                    sum.count, key[2]});
  }
  return draw({"peak", "Live at the peak", "row", "Size", true},
              {{"Op", "text"},
               {"Module", "text"},
               {"Size", "bytes"},
               {"Share", "percent"},
               {"Values", "count"},
               {"Kind", "pill"}},
              std::move(rows));
}

std::string actions_bar(const Run& run) {
  std::map<std::string, Share> by_action;
  for (const RunValue& value : run.values) {
    add(by_action, value.action.empty() ? "(no action)" : value.action, value.bytes);
  }
  return bar_of(by_action);
}

std::string peak_bar(const Run& run) {
  std::map<std::string, Share> by_module;
  for (const LivePart& part : run.peak.parts) {
    // "blocks.3.attention.out" -> "blocks.3": a model has a handful of those, and a thousand of the others.
    const size_t dot = part.path.find('.');
    const size_t end = dot == std::string::npos ? dot : part.path.find('.', dot + 1);
    const std::string module = part.path.substr(0, end);
    add(by_module,
        !module.empty()          ? module
        : part.kind == "outside" ? "parameters, gradients, state"
                                 : "in no module",
        part.bytes);
  }
  return bar_of(by_module);
}

}  // namespace encore::report
