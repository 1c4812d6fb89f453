// A value in a smaller form than the tensor's.
#pragma once

#include <string_view>

#include <c10/core/Storage.h>

namespace encore::store {

/// The bytes of one storage, to the last bit, in a form of their own; form.h has the forms.
class Resting {
 public:
  virtual ~Resting() = default;
  /// "bits", "narrow", ...
  virtual std::string_view form() const = 0;
  /// What it takes to hold it.
  virtual int64_t nbytes() const = 0;
  /// The storage, anew.
  virtual c10::Storage whole() const = 0;
};

}  // namespace encore::store
