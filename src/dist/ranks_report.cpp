// The report of all ranks: a table as text and as a page.
#include <encore/dist.h>

#include <array>
#include <cstdio>

namespace encore {
namespace {

constexpr std::array<const char*, 9> kHeads = {"rank",      "steps",   "limit MB",  "peak MB", "process MB",
                                               "ms a step", "waiting", "backwards", "sent MB"};

std::string number(double value, const char* form) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

std::string megabytes(int64_t bytes) {
  return bytes < 0 ? "-" : number(static_cast<double>(bytes) * 1e-6, "%.1f");
}

std::array<std::string, 9> cells(size_t rank, const RankRow& row) {
  const auto steps = static_cast<double>(row.steps > 0 ? row.steps : 1);
  return {std::to_string(rank),
          std::to_string(row.steps),
          megabytes(row.limit_bytes),
          megabytes(row.peak_bytes),
          megabytes(row.process_bytes),
          number(row.step_seconds * 1e3 / steps, "%.1f"),
          row.step_seconds > 0 ? number(row.waiting_seconds * 100 / row.step_seconds, "%.0f%%") : "-",
          std::to_string(row.reduced_backwards),
          megabytes(row.sent_bytes)};
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return safe;
}

}  // namespace

std::string RanksReport::text() const {
  const auto line = [](const auto& words) {
    std::string text;
    for (const auto& word : words) {
      const std::string cell = word;
      text += std::string(cell.size() < 11 ? 11 - cell.size() : 1, ' ') + cell;
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
  std::string rows;
  const auto add = [&](const auto& words, const std::string& tag) {
    rows += "<tr>";
    for (const auto& word : words) {
      rows += "<" + tag + ">" + std::string(word) + "</" + tag + ">";
    }
    rows += "</tr>\n";
  };
  add(kHeads, "th");
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    add(cells(rank, ranks[rank]), "td");
  }
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" + escaped(title) +
         "</title>\n<style>body{font:15px system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}"
         "th,td{padding:.35em .9em;text-align:right;border-bottom:1px solid #ddd}</style></head>\n<body><h1>" +
         escaped(title) + "</h1>\n<table>\n" + rows +
         "</table>\n<p>Waiting: the part of the steps spent waiting for other ranks and the network. Sent: handed to "
         "collectives.</p></body></html>\n";
}

}  // namespace encore
