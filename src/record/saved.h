// What stands behind a tensor that autograd saved.
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

/// What a tensor that is held was when autograd saved it.
struct AsSaved {
  int64_t version = 0;
  std::shared_ptr<const std::string> where;      // the tape's name, for messages; may be null
  std::optional<tape::Fingerprint> fingerprint;  // none for a tensor that ops may update unseen without harm
};
AsSaved as_saved(const at::Tensor& tensor, int64_t version, const tape::Tape& tape);

/// Holds the tensor itself, as autograd would. Refuses, as autograd would, if it is no longer what it was.
std::shared_ptr<Saved> keep_plainly(const at::Tensor& tensor, AsSaved then);

/// The tensor's version, 0 for tensors that have none.
int64_t version_of(const at::Tensor& tensor);

}  // namespace encore::record
