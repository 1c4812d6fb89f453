// A stretch of the tape with a rule of its own for what autograd saves in it.
#pragma once

#include "record/saved.h"
#include "record/stream.h"

namespace encore::record {

/// Regions nest, on one tape, as scopes do. The recorder asks the innermost region that made a value, and tells all
/// that are open what happens.
class Region : public Subscriber {
 public:
  /// `subscriber`, which may be null, is told besides the region itself.
  Region(tape::OpId first, std::shared_ptr<Subscriber> subscriber)
      : first_(first), subscriber_(std::move(subscriber)) {}

  /// The first op inside.
  tape::OpId first() const { return first_; }
  Subscriber* subscriber() const { return subscriber_.get(); }
  /// How many saved-tensor hooks of the user's own were set when the region opened: those set inside it win.
  size_t hooks_depth() const { return hooks_depth_.value_or(0); }
  /// The recorder does so as it opens the region, if nobody has.
  void set_hooks_depth(size_t depth) { hooks_depth_ = hooks_depth_.value_or(depth); }
  /// True where ops inside can't be replayed from outside: their function is called again instead.
  virtual bool is_opaque() const { return false; }
  /// Opaque regions only: autograd saves `tensor`, in the order in which the function saves; `op` is the op that runs.
  virtual std::shared_ptr<Saved> save_next(const at::Tensor&, const tape::OpInfo*) { return nullptr; }
  virtual bool replays_random_ops() const { return true; }

  /// Autograd saves `tensor`: a value made inside this region, or whatever it is while the region is opaque.
  virtual std::shared_ptr<Saved> save(tape::ValueId value, const at::Tensor& tensor) = 0;
  /// An op inside reads `tensor`, a value of this tape made before the region; `saved` is what its own region made of
  /// it.
  virtual void enter(tape::ValueId value, const std::shared_ptr<Saved>& saved) = 0;
  virtual bool has_entered(tape::ValueId value) const = 0;
  /// The recorder has put the region on.
  virtual void opened() {}
  /// The recorder has taken the region off: no more ops are inside.
  virtual void closed() {}

 private:
  tape::OpId first_;
  std::shared_ptr<Subscriber> subscriber_;
  std::optional<size_t> hooks_depth_;
};

}  // namespace encore::record
