// One change of where a value is.
#pragma once

#include "base/check.h"
#include "store/residency.h"

namespace encore::store {

/// Made before the change; at its end, in builds that check, the change must be one of the table of
/// docs/architecture.md.
class Residency::Move {
 public:
#ifdef ENCORE_CHECKS
  Move(const Residency& residency, tape::ValueId id, Verb verb)
      : residency_(residency), id_(id), verb_(verb), from_(residency.where(id)) {}
  ~Move() {
    ENCORE_CHECK(may(verb_, from_, residency_.where(id_)), "a value went where it can't go");
  }
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

 private:
  const Residency& residency_;
  tape::ValueId id_;
  Verb verb_;
  Where from_;
#else
  Move(const Residency& /*residency*/, tape::ValueId /*id*/, Verb /*verb*/) {}
#endif
};

}  // namespace encore::store
