// From owners of parameters to modules of ops, gap by gap between the ops that read parameters.
#include "budget/module_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "budget/module_match.h"

namespace encore::budget {
namespace {

/// An op that makes or writes bytes, or reads a module's tensor; views are no place of their own.
struct Place {
  size_t op = 0;
  int32_t owner = kNoModule;  // of a tensor that it reads
  bool updates = false;       // that tensor, while nobody differentiates
};

/// Places without an owner between two that have one.
struct Gap {
  size_t begin = 0;
  size_t end = 0;
  int32_t before = kNoModule;  // owners there
  int32_t after = kNoModule;
};

class Naming {
 public:
  Naming(const ModuleTree& tree, const tape::Tape& tape)
      : tree_(tree), tape_(tape), last_read_(static_cast<size_t>(tape.num_storages()), -1) {}

  std::vector<std::string> name() {
    find_places();
    find_gaps();
    compare_forms();
    for (const Gap& gap : gaps_) {
      fill(gap);
    }
    give_to_children();
    std::vector<std::string> paths(tape_.ops().size());
    for (size_t i = 0; i < places_.size(); ++i) {
      paths[places_[i].op] = module_[i] == kNoModule ? "" : tree_.node(module_[i]).path;
    }
    return paths;
  }

 private:
  const tape::Op& op_at(size_t place) const { return tape_.ops()[places_[place].op]; }
  std::string_view name_at(size_t place) const { return op_at(place).info->name; }

  /// The op's results in storages that were not there before it.
  template <class Visit>
  void for_each_made(size_t op, const Visit& visit) const {
    for (const tape::Output& output : tape_.ops()[op].outputs) {
      if (output.value != tape::kNone && tape_.value(output.value).producer == static_cast<tape::OpId>(op) &&
          tape_.value(output.value).base == tape::kNone) {
        visit(static_cast<size_t>(tape_.value(output.value).storage));
      }
    }
  }

  void find_places() {
    for (size_t i = 0; i < tape_.ops().size(); ++i) {
      const tape::Op& op = tape_.ops()[i];
      Place place;
      place.op = i;
      for (const tape::TensorArg& arg : op.tensors) {
        if (arg.value == tape::kNone) {
          continue;
        }
        const int32_t storage = tape_.value(arg.value).storage;
        last_read_[static_cast<size_t>(storage)] = static_cast<int64_t>(i);
        if (place.owner == kNoModule) {
          // Not by what is held: what nobody needs any more was let go of when backward ended.
          place.owner = tree_.owner_of(tape_.storage(storage).weak._unsafe_get_target(), op.info->name);
        }
      }
      bool works = !op.writes.empty();
      for_each_made(i, [&](size_t) { works = true; });
      place.updates = place.owner != kNoModule && !op.grad_mode && !op.writes.empty();
      if (works || place.owner != kNoModule) {
        places_.push_back(place);
      }
    }
    module_.resize(places_.size(), kNoModule);
  }

  void find_gaps() {
    Gap gap;
    for (size_t i = 0; i <= places_.size(); ++i) {
      const int32_t owner = i < places_.size() ? places_[i].owner : kNoModule;
      if (i < places_.size() && owner == kNoModule) {
        continue;
      }
      gap.end = i;
      gap.after = owner;
      if (i < places_.size()) {
        module_[i] = owner;
        while (places_[i].updates && gap.end > gap.begin && !op_at(gap.end - 1).grad_mode) {
          module_[--gap.end] = owner;
        }
        gap.after = places_[i].updates ? kNoModule : owner;
      }
      if (gap.end > gap.begin) {
        gaps_.push_back(gap);
      }
      gap.begin = i + 1;
      gap.before = owner;
    }
  }

  /// Where a gap's ops may be: within `owner`, unless all that it does are ops that read its tensors.
  int32_t within(int32_t owner) const {
    return owner != kNoModule && tree_.node(owner).is_one_op ? tree_.node(owner).parent : owner;
  }

  int32_t around(const Gap& gap) const {
    const int32_t some = gap.before == kNoModule ? gap.after : gap.before;
    const int32_t before = gap.before == kNoModule ? tree_.root_of(some) : within(gap.before);
    const int32_t after = gap.after == kNoModule ? tree_.root_of(some) : within(gap.after);
    return tree_.common(before, after);
  }

  /// The modules from the one where the gap begins (or ends) up to below `common`, innermost first.
  std::vector<int32_t> chain(int32_t owner, int32_t common) const {
    std::vector<int32_t> modules;
    for (int32_t m = within(owner); m != kNoModule && m != common; m = tree_.node(m).parent) {
      modules.push_back(m);
    }
    return modules;
  }

  /// How far modules of one form go on alike after their last parameter. That tells nothing where all of them do to the
  /// end, nor where another module around them always ends as well: it may be that one's doing.
  struct Tail {
    const Gap* first = nullptr;
    size_t length = 0;
    bool differ = false;
    bool ends_alone = false;
  };
  void compare_forms() {
    for (const Gap& gap : gaps_) {
      const std::vector<int32_t> leaving = chain(gap.before, around(gap));
      for (const int32_t module : leaving) {
        Tail& tail = tails_[tree_.node(module).form];
        tail.ends_alone = tail.ends_alone || module == leaving.back();
        if (tail.first == nullptr) {
          tail.first = &gap;
          tail.length = gap.end - gap.begin;
          continue;
        }
        size_t alike = 0;
        while (alike < tail.length && gap.begin + alike < gap.end &&
               name_at(gap.begin + alike) == name_at(tail.first->begin + alike)) {
          ++alike;
        }
        tail.differ = tail.differ || alike < tail.length || alike < gap.end - gap.begin;
        tail.length = alike;
      }
    }
  }

  size_t alike_length(int32_t module) const {
    const auto tail = tails_.find(tree_.node(module).form);
    return tail != tails_.end() && tail->second.differ && tail->second.ends_alone ? tail->second.length : 0;
  }

  /// How many of the gap's ops run before the module has no more than one value to hand on.
  size_t unfinished_length(int32_t module, const Gap& gap) const {
    size_t call = gap.begin;  // where the module's first op is that reads a tensor of its own
    for (size_t i = gap.begin; i > 0; --i) {
      const int32_t owner = places_[i - 1].owner;
      if (owner != kNoModule && !tree_.is_inside(owner, module)) {
        break;
      }
      call = owner == kNoModule ? call : i - 1;
    }
    std::set<size_t> made;
    for (size_t end = call + 1; end <= gap.end; ++end) {
      for_each_made(places_[end - 1].op, [&](size_t storage) { made.insert(storage); });
      const auto now = static_cast<int64_t>(places_[end - 1].op);
      const auto handed_on = [&](size_t storage) { return last_read_[storage] > now; };
      if (end >= gap.begin && std::count_if(made.begin(), made.end(), handed_on) <= 1) {
        return end - gap.begin;
      }
    }
    return 0;
  }

  /// How many of the gap's ops from `begin` on are those of `module`'s children without tensors, one after another:
  /// the next ones after, or with `step` -1 the ones before, the child through which the gap is reached.
  size_t children_length(int32_t module, int32_t owner, size_t begin, size_t end, int32_t step) const {
    const auto& children = tree_.node(module).children;
    const int32_t from = tree_.child_towards(module, owner);
    size_t length = 0;
    for (int32_t i = from == kNoModule ? -1 : tree_.node(from).place + step;
         from != kNoModule && i >= 0 && i < static_cast<int32_t>(children.size()); i += step) {
      const ModuleTree::Node& child = tree_.node(children[static_cast<size_t>(i)]);
      if (child.has_tensors) {
        break;
      }
      for (size_t most = end - begin - length, n = 1; n <= most; ++n) {
        const size_t at = step > 0 ? begin + length : end - length - n;
        if (match(child, at, step > 0 ? end : end - length) == n) {
          length += n;
          break;
        }
      }
    }
    return length;
  }

  size_t match(const ModuleTree::Node& child, size_t begin, size_t end) const {
    std::vector<std::string_view> names;
    for (size_t i = begin; i < std::min(end, begin + kLongestMatch); ++i) {
      names.push_back(name_at(i));
    }
    return child.has_tensors || !child.children.empty() ? 0 : ops_of_kind(child.kind, names);
  }

  void fill(const Gap& gap) {
    const int32_t common = around(gap);
    std::fill(module_.begin() + static_cast<int64_t>(gap.begin), module_.begin() + static_cast<int64_t>(gap.end),
              common);
    size_t left = gap.begin;
    for (const int32_t module : chain(gap.before, common)) {
      const size_t known = std::max(unfinished_length(module, gap), alike_length(module));
      const size_t until = std::max(left, std::min(gap.end, gap.begin + known));
      const size_t end = until + children_length(module, gap.before, until, gap.end, 1);
      std::fill(module_.begin() + static_cast<int64_t>(left), module_.begin() + static_cast<int64_t>(end), module);
      left = end;
    }
    size_t right = gap.end;
    for (const int32_t module : chain(gap.after, common)) {
      const size_t begin = right - children_length(module, gap.after, left, right, -1);
      std::fill(module_.begin() + static_cast<int64_t>(begin), module_.begin() + static_cast<int64_t>(right), module);
      right = begin;
    }
  }

  /// The next child without tensors that does the ops at `begin`, between those children through which a gap is
  /// reached.
  int32_t child_between(int32_t module, const Gap& gap, size_t begin, size_t* length) const {
    const auto& children = tree_.node(module).children;
    const int32_t before = tree_.child_towards(module, gap.before);
    const int32_t after = tree_.child_towards(module, gap.after);
    const auto look = [&](int32_t from, int32_t step) {
      for (int32_t i = from; i >= 0 && i < static_cast<int32_t>(children.size()); i += step) {
        const int32_t child = children[static_cast<size_t>(i)];
        if (tree_.node(child).has_tensors) {
          break;
        }
        if (*length = match(tree_.node(child), begin, gap.end); *length > 0) {
          return child;
        }
      }
      return kNoModule;
    };
    const int32_t next = before == kNoModule ? kNoModule : look(tree_.node(before).place + 1, 1);
    return next != kNoModule || after == kNoModule ? next : look(tree_.node(after).place - 1, -1);
  }

  /// Ops that one of several children without tensors has done, and its place among them does not say which.
  struct Unplaced {
    size_t begin = 0;
    size_t length = 0;
  };

  void give_to_children() {
    std::map<std::pair<int32_t, std::string>, std::vector<Unplaced>> unplaced;  // by module and kind of child
    std::vector<int32_t> placed;
    for (const Gap& gap : gaps_) {
      for (size_t i = gap.begin; i < gap.end;) {
        const int32_t module = module_[i];
        size_t length = 0;
        const int32_t child = module == kNoModule ? kNoModule : child_between(module, gap, i, &length);
        if (child != kNoModule) {
          placed.push_back(child);
        } else if (module != kNoModule) {
          for (const int32_t other : tree_.node(module).children) {
            if (length = match(tree_.node(other), i, gap.end); length > 0) {
              unplaced[{module, tree_.node(other).kind}].push_back({i, length});
              break;
            }
          }
        }
        length = std::max<size_t>(1, length);
        for (size_t k = i; child != kNoModule && k < i + length; ++k) {
          module_[k] = child;
        }
        i += length;
      }
    }
    for (const auto& [who, occurrences] : unplaced) {
      give_in_turn(who.first, who.second, occurrences, placed);
    }
  }

  /// One child of that kind did all of it; several did it in turn, if it can be shared out evenly.
  void give_in_turn(int32_t module, const std::string& kind, const std::vector<Unplaced>& occurrences,
                    const std::vector<int32_t>& placed) {
    std::vector<int32_t> all;
    std::vector<int32_t> free;
    for (const int32_t child : tree_.node(module).children) {
      if (tree_.node(child).kind == kind) {
        all.push_back(child);
        if (std::find(placed.begin(), placed.end(), child) == placed.end()) {
          free.push_back(child);
        }
      }
    }
    const std::vector<int32_t>& turns = all.size() == 1 ? all : free;
    if (turns.empty() || occurrences.size() % turns.size() != 0) {
      return;
    }
    for (size_t i = 0; i < occurrences.size(); ++i) {
      for (size_t k = 0; k < occurrences[i].length; ++k) {
        module_[occurrences[i].begin + k] = turns[i % turns.size()];
      }
    }
  }

  const ModuleTree& tree_;
  const tape::Tape& tape_;
  std::vector<int64_t> last_read_;  // by storage: the last op that reads it
  std::vector<Place> places_;
  std::vector<int32_t> module_;  // by place
  std::vector<Gap> gaps_;
  std::map<std::string, Tail> tails_;  // by form
};

}  // namespace

std::vector<std::string> module_paths(const ModuleTree& tree, const tape::Tape& tape) {
  return tree.empty() ? std::vector<std::string>() : Naming(tree, tape).name();
}

}  // namespace encore::budget
