// What was live at the peak as a tree of modules that unfolds, which needs no script.
#include <algorithm>
#include <map>

#include "report/page.h"
#include "report/text.h"

namespace encore::report {
namespace {

/// A module, or an op in one.
struct Branch {
  int64_t bytes = 0;
  int64_t count = 0;
  std::map<std::string, Branch> inside;
};

std::string in_words(const std::string& kind) {
  return kind == "scratch" ? "needed while it runs" : kind == "held" ? "held by your own code" : kind;
}

Branch tree_of(const Run& run) {
  Branch root;
  for (const LivePart& part : run.peak.parts) {
    std::vector<std::string> names;
    for (size_t from = 0; !part.path.empty() && from <= part.path.size();) {
      const size_t dot = std::min(part.path.find('.', from), part.path.size());
      names.push_back(part.path.substr(from, dot - from));
      from = dot + 1;
    }
    if (part.path.empty() && part.kind != "outside") {
      names.emplace_back("in no module");
    }
    // A module and an op may have one name: the blank keeps them apart.
    names.push_back(part.name + (part.kind == "outside" || part.kind.empty() ? " " : ", " + in_words(part.kind)));
    Branch* at = &root;
    for (const std::string& name : names) {
      at->bytes += part.bytes;
      ++at->count;
      at = &at->inside[name];
    }
    at->bytes += part.bytes;
    ++at->count;
  }
  return root;
}

std::string line(const std::string& name, const Branch& branch, int64_t total) {
  const double share = total > 0 ? static_cast<double>(branch.bytes) / static_cast<double>(total) : 0;
  return "<span class=\"name\"><bdi>" + escape_html(name) + "</bdi> <span>" + counted(branch.count, "value") +
         "</span></span><b>" + bytes_text(branch.bytes) + "</b><span class=\"share\">" + percent_text(share) +
         "</span>";
}

void write(const Branch& branch, int64_t total, std::string* out) {
  std::vector<std::pair<const std::string*, const Branch*>> largest_first;
  for (const auto& [name, inside] : branch.inside) {
    largest_first.emplace_back(&name, &inside);
  }
  std::stable_sort(largest_first.begin(), largest_first.end(),
                   [](const auto& a, const auto& b) { return a.second->bytes > b.second->bytes; });
  *out += "<ul>";
  for (const auto& [first_name, first] : largest_first) {
    std::string name = *first_name;
    const Branch* at = first;
    // A list of layers is no level of its own if it is all that its module has.
    while (at->inside.size() == 1 && !at->inside.begin()->second.inside.empty()) {
      name += "." + at->inside.begin()->first;
      at = &at->inside.begin()->second;
    }
    if (at->inside.empty()) {
      *out += "<li><div>" + line(name, *at, total) + "</div></li>";
    } else {
      *out += "<li><details><summary>" + line(name, *at, total) + "</summary>";
      write(*at, total, out);
      *out += "</details></li>";
    }
  }
  *out += "</ul>";
}

}  // namespace

std::string peak_tree(const Run& run) {
  const Branch root = tree_of(run);
  std::string out = "<div class=\"tree card\">";
  write(root, root.bytes, &out);
  return out + "</div>\n";
}

}  // namespace encore::report
