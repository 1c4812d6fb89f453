// A region without a policy.
#pragma once

#include "record/recorder.h"

namespace encore::record {

/// Keeps all that it is asked to save.
class Keeping final : public Region {
 public:
  Keeping(tape::OpId first, std::shared_ptr<Subscriber> subscriber) : Region(first, std::move(subscriber)) {}
  std::shared_ptr<Saved> save(tape::ValueId, const at::Tensor& tensor) override {
    return keep_plainly(tensor, {version_of(tensor), nullptr, {}});
  }
  void enter(tape::ValueId, const std::shared_ptr<Saved>&) override {}
  bool has_entered(tape::ValueId) const override { return true; }
};

}  // namespace encore::record
