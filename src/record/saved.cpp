// Holding a saved tensor itself, as autograd would.
#include "record/saved.h"

#include <encore/error.h>

namespace encore::record {
namespace {

class PlainlyKept final : public Saved {
 public:
  PlainlyKept(const at::Tensor& tensor, AsSaved then) : tensor_(tape::detached_alias(tensor)), then_(std::move(then)) {}

  at::Tensor get() override {
    if (version_of(tensor_) != then_.version || has_other_bytes()) {
      throw ChangedError(
          (!then_.where || then_.where->empty() ? std::string("checkpoint") : "checkpoint '" + *then_.where + "'") +
          ": the tensor " + tape::Geometry::of(tensor_).text() +
          " was changed in place after autograd saved it; backward needs it as it was. Change it after "
          "backward, or change a clone");
    }
    return tensor_;
  }

 private:
  bool has_other_bytes() const { return then_.fingerprint.has_value() && !then_.fingerprint->is_of(tensor_.storage()); }

  at::Tensor tensor_;
  AsSaved then_;
};

}  // namespace

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<int64_t>(tensor._version());
}

AsSaved as_saved(const at::Tensor& tensor, int64_t version, const tape::Tape& tape) {
  AsSaved then{version, tape.shared_name(), {}};
  const tape::ValueId value = tape.find(tensor);
  if (tape::is_plain(tensor) && (value == tape::kNone || !tape.value(value).state)) {
    then.fingerprint = tape::Fingerprint::of(tensor.storage(),
                                             tape.every_byte() ? tape::Coverage::kEveryByte : tape::Coverage::kGlance);
  }
  return then;
}

std::shared_ptr<Saved> keep_plainly(const at::Tensor& tensor, AsSaved then) {
  return std::make_shared<PlainlyKept>(tensor, std::move(then));
}

}  // namespace encore::record
