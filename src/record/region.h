// A stretch of the tape with a rule of its own for what autograd saves in it.
#pragma once

#include "tape/tape.h"

namespace encore::record {

/// What stands behind one tensor that autograd saved. Destroyed with the graph node that saved it.
class Saved {
 public:
  virtual ~Saved() = default;
  /// The tensor as it was when it was saved.
  virtual at::Tensor get() = 0;
  /// Somebody will use all bytes of the storage behind the tensor, not only the tensor's own.
  virtual void needs_whole_storage() {}
};

class Recorder;

/// Regions nest, on one tape, as scopes do. The recorder asks the innermost region that made a value.
class Region {
 public:
  explicit Region(tape::OpId first) : first_(first) {}
  virtual ~Region() = default;

  /// The first op inside.
  tape::OpId first() const { return first_; }
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
  /// A backward that runs while this region is open is about to add to the leaf's gradient.
  virtual void accumulates_into(const at::Tensor&) {}

  /// Asked of the innermost region before each op; `next` is the op's id. True if it opened or closed a region.
  virtual bool before_op(Recorder&, tape::OpId /*next*/) { return false; }
  /// An op made version `after` out of version `before` by writing to `part` of the storage.
  virtual void overwritten(tape::ValueId /*before*/, tape::ValueId /*after*/, const tape::Geometry& /*part*/) {}
  /// Told to every open region after each op inside.
  virtual void after_op(tape::OpId) {}
  /// The recorder has put the region on.
  virtual void opened() {}
  /// The recorder has taken the region off: no more ops are inside.
  virtual void closed() {}

 private:
  tape::OpId first_;
};

/// What a tensor that is held was when autograd saved it.
struct AsSaved {
  int64_t version = 0;
  std::string where;                             // the tape, for messages
  std::optional<tape::Fingerprint> fingerprint;  // none for a tensor that ops may update unseen without harm
};
AsSaved as_saved(const at::Tensor& tensor, int64_t version, const tape::Tape& tape);

/// Holds the tensor itself, as autograd would. Refuses, as autograd would, if it is no longer what it was.
std::shared_ptr<Saved> keep_plainly(const at::Tensor& tensor, AsSaved then);

/// The tensor's version, 0 for tensors that have none.
int64_t version_of(const at::Tensor& tensor);

}  // namespace encore::record
