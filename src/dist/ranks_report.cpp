// The report of all ranks: a table as text and as a page.
#include <encore/dist.h>

#include <algorithm>
#include <array>

#include "base/plain_numbers.h"

namespace encore {
namespace {

constexpr std::array<const char*, 10> kHeads = {"rank",         "steps",      "failed",    "limit MB", "peak MB",
                                                "predicted MB", "process MB", "ms a step", "waiting",  "sent MB"};

std::string megabytes(int64_t bytes) {
  return bytes < 0 ? "-" : number_text("%.1f", static_cast<double>(bytes) * 1e-6);
}

double milliseconds_a_step(const RankRow& row) {
  return row.step_seconds * 1e3 / static_cast<double>(std::max<int64_t>(row.steps, 1));
}

double waiting_part(const RankRow& row) {
  return row.step_seconds > 0 ? std::min(1.0, row.waiting_seconds / row.step_seconds) : 0;
}

std::array<std::string, 10> cells(size_t rank, const RankRow& row) {
  return {std::to_string(rank),
          std::to_string(row.steps),
          std::to_string(row.failed_steps),
          megabytes(row.limit_bytes),
          megabytes(row.peak_bytes),
          megabytes(row.predicted_bytes),
          megabytes(row.process_bytes),
          number_text("%.1f", milliseconds_a_step(row)),
          row.step_seconds > 0 ? number_text("%.0f%%", waiting_part(row) * 100) : "-",
          megabytes(row.sent_bytes)};
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return safe;
}

/// One sentence: what somebody with many ranks looks for first.
std::string summary(const std::vector<RankRow>& ranks) {
  size_t fullest = 0;
  size_t least_waiting = 0;
  bool within = true;
  const auto fullness = [](const RankRow& row) {
    return row.limit_bytes > 0 ? static_cast<double>(row.peak_bytes) / static_cast<double>(row.limit_bytes) : 0;
  };
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    within = within && fullness(ranks[rank]) <= 1;
    fullest = fullness(ranks[rank]) > fullness(ranks[fullest]) ? rank : fullest;
    least_waiting = waiting_part(ranks[rank]) < waiting_part(ranks[least_waiting]) ? rank : least_waiting;
  }
  std::string text;
  if (fullness(ranks[fullest]) > 0) {
    text = (within ? "Every rank stayed within its budget; rank " : "Not every rank stayed within its budget: rank ") +
           std::to_string(fullest) + " came nearest with " + number_text("%.1f%%", fullness(ranks[fullest]) * 100) +
           ". ";
  }
  if (ranks.size() > 1) {
    text += "Rank " + std::to_string(least_waiting) + " waited least (" +
            number_text("%.0f%%", waiting_part(ranks[least_waiting]) * 100) +
            "): the others wait for it or for the network.";
  }
  return text;
}

/// A bar of which `part` is filled, and the words next to it.
std::string bar(double part, const char* colour, const std::string& words) {
  return "<td class=\"bar\"><span><i style=\"width:" + number_text("%.1f%%", part * 100) + ";background:" + colour +
         "\"></i></span>" + words + "</td>";
}

constexpr char kStyle[] =
    "body{font:15px system-ui,sans-serif;margin:2em;color:#222;max-width:70em}table{border-collapse:collapse}"
    "th,td{padding:.35em .8em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}th{font-weight:600}"
    ".bar{text-align:left}.bar span{display:inline-block;width:9em;height:.8em;background:#e8e8e8;margin-right:.6em}"
    ".bar i{display:block;height:100%}dt{font-weight:600}dd{margin:0 0 .4em 1.5em}";

constexpr char kWords[] =
    "<dl><dt>limit, peak, predicted</dt><dd>Tensor bytes: the budget, the most that was measured at the allocator, and "
    "the most that a plan foresaw. The slots of the reduction and Gloo's scratch are in them.</dd>"
    "<dt>process</dt><dd>What the system says the whole process took, at its most.</dd>"
    "<dt>waiting</dt><dd>The part of the steps spent waiting for other ranks and the network.</dd>"
    "<dt>sent</dt><dd>Handed to collectives. <b>failed</b>: steps that an exception or a refusal ended, on whatever "
    "rank.</dd></dl>";

}  // namespace

std::string RanksReport::text() const {
  const auto line = [](const auto& words) {
    std::string text;
    for (size_t i = 0; i < words.size(); ++i) {
      const size_t width = i < 3 ? 7 : 13;
      const std::string cell = words[i];
      text += std::string(cell.size() < width ? width - cell.size() : 1, ' ') + cell;
    }
    return text + "\n";
  };
  std::string text = line(kHeads);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    text += line(cells(rank, ranks[rank]));
  }
  return text;
}

std::string RanksReport::html(const std::string& title) const {
  std::string rows = "<tr>";
  for (const char* head : kHeads) {
    rows += "<th>" + std::string(head) + "</th>";
  }
  rows += "<th class=\"bar\">peak of limit</th><th class=\"bar\">waiting of a step</th></tr>\n";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankRow& row = ranks[rank];
    rows += "<tr>";
    for (const std::string& cell : cells(rank, row)) {
      rows += "<td>" + cell + "</td>";
    }
    const double full =
        row.limit_bytes > 0 ? static_cast<double>(row.peak_bytes) / static_cast<double>(row.limit_bytes) : 0;
    rows += row.limit_bytes > 0
                ? bar(std::min(full, 1.0), full > 1 ? "#c0392b" : "#2e7d5b", number_text("%.1f%%", full * 100))
                : "<td class=\"bar\">no budget</td>";
    rows += bar(waiting_part(row), "#b9770e",
                number_text("%.1f", waiting_part(row) * milliseconds_a_step(row)) + " of " +
                    number_text("%.1f ms", milliseconds_a_step(row))) +
            "</tr>\n";
  }
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(title) +
         "</title>\n<style>" + kStyle + "</style></head>\n<body><h1>" + escaped(title) + "</h1>\n<p>" +
         (ranks.empty() ? "" : summary(ranks)) + "</p>\n<table>\n" + rows + "</table>\n" + kWords + "</body></html>\n";
}

}  // namespace encore
