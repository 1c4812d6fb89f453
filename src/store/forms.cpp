// The list of forms.
#include "store/form.h"

namespace encore::store {

// One name a form, those that take least first: constant() is in constant.cpp.
#define ENCORE_FORMS(form) form(constant) form(bits) form(narrow)

#define ENCORE_DECLARE_FORM(name) const Form& name();
ENCORE_FORMS(ENCORE_DECLARE_FORM)
#undef ENCORE_DECLARE_FORM

const std::vector<const Form*>& forms() {
#define ENCORE_LIST_FORM(name) &name(),
  // Never destroyed: tensors may rest to the end.
  static const auto& all = *new std::vector<const Form*>{ENCORE_FORMS(ENCORE_LIST_FORM)};
#undef ENCORE_LIST_FORM
  return all;
}

std::shared_ptr<const Resting> rest(const at::Tensor& tensor, const Candidate* candidate) {
  const bool fills_storage = tape::is_plain(tensor) && tensor.numel() > 0 &&
                             tape::Geometry::of(tensor).covers(static_cast<int64_t>(tensor.storage().nbytes()));
  if (!fills_storage) {
    return nullptr;
  }
  for (const Form* form : forms()) {
    if (candidate == nullptr || form->may_serve(*candidate)) {
      if (auto resting = form->rest(tensor)) {
        return resting;
      }
    }
  }
  return nullptr;
}

}  // namespace encore::store
