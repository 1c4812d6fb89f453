// Smaller forms in which a value may rest between its uses, each exact to the last bit.
//
// To add one: a source file with its Form, its name in the list of forms.cpp, and a test file that runs the conformance
// suite of tests/store on it. Policies, budgets, the planner and reports know forms by name only.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "store/resting.h"
#include "tape/geometry.h"

namespace encore::store {

/// What is known of a value before anybody looks at its bytes.
struct Candidate {
  at::ScalarType dtype = at::kFloat;
  bool random = false;  // drawn, or changed in place after it was drawn
};

class Form {
 public:
  virtual ~Form() = default;
  virtual std::string_view name() const = 0;
  /// Whether looking at the bytes of such a value is likely to be worth its time.
  virtual bool may_serve(const Candidate& value) const = 0;
  /// The tensor's storage in this form; null if its bytes don't allow that, or it would not be smaller. The tensor is
  /// plain, fills its storage exactly, and has at least one element.
  virtual std::shared_ptr<const Resting> rest(const at::Tensor& tensor) const = 0;
};

/// Those that take least first.
const std::vector<const Form*>& forms();

/// The tensor's storage in the first form that its bytes allow; null if there is none, or the tensor does not fill its
/// storage. With a candidate only forms that may serve it are tried. May be called on any thread.
std::shared_ptr<const Resting> rest(const at::Tensor& tensor, const Candidate* candidate = nullptr);

}  // namespace encore::store
