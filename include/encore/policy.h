// Rules that say which of the values autograd saves are kept and which are recomputed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <encore/export.h>

namespace encore {

/// What is done with a value that autograd saves.
enum class Action {
  kKeep,       ///< the tensor itself is held, as without Encore
  kRecompute,  ///< nothing is held: it is brought back when backward asks
  /// What can be held in a smaller form that is exact is held so, and comes back without being computed; everything
  /// else is recomputed. Of the forms that there are, the one that takes least: equal elements as one of them, a mask
  /// as a bit an element, integers as wide as their range needs.
  kPack,
};

/// A value about to be saved, as policies see it. The views live as long as the call.
struct ValueInfo {
  std::string_view op;    ///< the op that made it, "aten::addmm" or "aten::mul.Tensor"
  std::string_view path;  ///< names of the open scopes and checkpoints, outermost first: "decoder/block3"
  int64_t bytes = 0;      ///< of its storage
  bool random = false;    ///< its op drew random numbers, or changed in place what was drawn
  /// The op that made its storage; another than `op` where in-place ops changed the result since, as a bias is added to
  /// a matrix product.
  std::string_view maker = {};
};

/// A rule over values. It may have no opinion on a value; `a | b` asks b where a has none.
/// Copies share the rule; the rule may be called from any thread.
class ENCORE_API Policy {
 public:
  using Rule = std::function<std::optional<Action>(const ValueInfo&)>;

  /// `rest` is for the values that the rule has no opinion on.
  Policy(Rule rule, Action rest);

  Action operator()(const ValueInfo& value) const;
  std::optional<Action> opinion(const ValueInfo& value) const;
  Action rest() const { return rest_; }

  /// First this policy's opinion, then the other's; the rest as the other says.
  friend ENCORE_API Policy operator|(const Policy& first, const Policy& second);

 private:
  Rule rule_;
  Action rest_;
};

/// Keeps everything: records, saves no memory.
ENCORE_API Policy keep_all();
/// Recomputes everything.
ENCORE_API Policy drop_all();
/// Packs masks that were drawn at random, as dropout's are: drawing them again is dear, and their bits are a
/// thirty-second of what floats take. Recomputes the rest. What `checkpoint` does by default.
ENCORE_API Policy pack_masks();
/// Keeps results of matrix products, convolutions and attention, the dear ones, also where an in-place op has changed
/// them since; recomputes the rest.
ENCORE_API Policy keep_matmuls();
/// Keeps results of the named ops ("aten::addmm", with or without overload), as they are or changed in place;
/// recomputes the rest.
ENCORE_API Policy keep_ops(std::initializer_list<std::string_view> ops);
/// Recomputes values of strictly more than `bytes`; keeps the rest.
ENCORE_API Policy larger_than(int64_t bytes);
/// Applies `policy` where the path matches; keeps the rest. `*` stands for any run of characters, `?` for one.
ENCORE_API Policy named(std::string_view pattern, const Policy& policy = drop_all());

}  // namespace encore
