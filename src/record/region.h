// A stretch of the tape with a rule of its own for what autograd saves in it.
#pragma once

#include "record/saved.h"

namespace encore::record {

class Recorder;

/// Regions nest, on one tape, as scopes do. The recorder asks the innermost region that made a value.
class Region {
 public:
  explicit Region(tape::OpId first) : first_(first) {}
  virtual ~Region() = default;

  /// The first op inside.
  tape::OpId first() const { return first_; }
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
  /// True if the region wants to know which leaves a backward adds to.
  virtual bool wants_leaves() const { return is_opaque(); }
  /// A backward that runs while this region is open is about to add to the leaf's gradient.
  virtual void accumulates_into(const at::Tensor&) {}
  /// Told to every open region before an op runs, under the tape's lock.
  virtual void op_starts(const tape::PendingOp&) {}

  /// Asked of the innermost region before each op; `next` is the op's id. True if it opened or closed a region.
  virtual bool before_op(Recorder&, tape::OpId /*next*/) { return false; }
  /// An op made version `after` out of version `before` by writing to `part` of the storage, through a tensor that
  /// autograd differentiates if it has a history.
  virtual void overwritten(tape::ValueId /*before*/, tape::ValueId /*after*/, const tape::Geometry& /*part*/,
                           bool /*has_history*/) {}
  /// An op inside changed what was made before without tensors over it noticing.
  virtual void overwrote_unseen() {}
  /// Told to every open region after each op inside.
  virtual void after_op(tape::OpId) {}
  /// The recorder has put the region on.
  virtual void opened() {}
  /// The recorder has taken the region off: no more ops are inside.
  virtual void closed() {}

 private:
  tape::OpId first_;
  std::optional<size_t> hooks_depth_;
};

}  // namespace encore::record
