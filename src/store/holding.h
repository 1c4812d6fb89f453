// Who has a claim on the bytes of a value.
#pragma once

#include "tape/tape.h"

namespace encore::store {

/// Who may ask for values later: a region, or a function that is called again. Called under the tape's lock.
class Holder {
 public:
  virtual ~Holder() = default;
  /// Visits the values that may be asked for; with `dropped_only` those that are held nowhere.
  virtual void for_each_needed(bool dropped_only, const std::function<void(tape::ValueId)>& visit) const = 0;
};

/// A holder's claim on one value: a tensor that autograd saved. It may keep the bytes, share in a smaller form of them,
/// or wait for them to come back; Residency alone says which. Belongs to the lists of one Residency from its add() to
/// its remove().
class Holding {
 public:
  virtual ~Holding() = default;

  tape::ValueId value() const { return value_; }
  const Holder* holder() const { return holder_; }
  bool keeps() const { return static_cast<bool>(bytes_); }
  /// What it keeps, or nothing.
  const c10::Storage& bytes() const { return bytes_; }

  /// An op wrote over the value without the tensor noticing, so that autograd reads it as it is now: gives the tensor
  /// to `save_anew`, which saves it as what the op made.
  using SaveAnew = std::function<std::shared_ptr<void>(const at::Tensor&)>;
  virtual void overwritten_unseen(const SaveAnew& /*save_anew*/) {}

  struct Links {
    Holding* previous = nullptr;
    Holding* next = nullptr;
  };

 protected:
  /// Whether it waits for what came back.
  bool has_claim() const { return claimed_; }

 private:
  friend class Residency;
  friend class HoldingList;

  tape::ValueId value_ = tape::kNone;
  bool rests_ = false;    // shares in the value's smaller form
  bool claimed_ = false;  // the value came back and is retained until this has had it
  int64_t epoch_ = 0;     // in which that was
  const Holder* holder_ = nullptr;
  c10::Storage bytes_;
  Links of_value_;
  Links of_holder_;
};

/// A list that runs through the holdings themselves, so that a tensor that autograd saves costs no memory here.
class HoldingList {
 public:
  enum class By { kValue, kHolder };

  void add(Holding& holding, By by) {
    links(holding, by) = {nullptr, first_};
    if (first_ != nullptr) {
      links(*first_, by).previous = &holding;
    }
    first_ = &holding;
  }
  void remove(Holding& holding, By by) {
    const Holding::Links here = links(holding, by);
    (here.previous == nullptr ? first_ : links(*here.previous, by).next) = here.next;
    if (here.next != nullptr) {
      links(*here.next, by).previous = here.previous;
    }
    links(holding, by) = {};
  }
  /// The visitor must not change the list.
  template <class Visit>
  void for_each(By by, const Visit& visit) const {
    for (Holding* holding = first_; holding != nullptr; holding = links(*holding, by).next) {
      visit(*holding);
    }
  }

 private:
  static Holding::Links& links(Holding& holding, By by) {
    return by == By::kValue ? holding.of_value_ : holding.of_holder_;
  }

  Holding* first_ = nullptr;
};

}  // namespace encore::store
