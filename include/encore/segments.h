// Ranges of recorded ops that are recomputed, and a scope that executes them.
//
// A node is one recorded op, counted from 0 as Scope::dump() lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <encore/checkpoint.h>
#include <encore/export.h>
#include <encore/scope.h>

namespace encore {

/// Nodes start_node to end_node, both included.
struct CheckpointSegment {
  int64_t start_node = 0;
  int64_t end_node = 0;

  friend bool operator==(const CheckpointSegment& a, const CheckpointSegment& b) {
    return a.start_node == b.start_node && a.end_node == b.end_node;
  }
};

/// `Scope scope(config)` executes it: what a segment computes and only it reads is dropped and recomputed, all of a
/// segment at once; what crosses a segment's border, and all outside the segments, is kept.
struct ENCORE_API CheckpointConfig {
  std::vector<CheckpointSegment> segments;

  /// All nodes in `num_segments` segments, none more than one node longer than another, the longer ones first. With
  /// more segments than nodes each node is a segment; with none of either there is no segment. Throws InvalidArgument
  /// for negative numbers.
  static CheckpointConfig uniform(int64_t num_nodes, int64_t num_segments);

  /// True if the node lies in a segment.
  bool should_checkpoint(int64_t node) const;

  /// Throws InvalidArgument for a segment that begins before node 0, ends before it begins, or shares nodes with
  /// another. Scopes call this.
  void check() const;
};

/// For each node, whether its values are recomputed (true) or kept (false). Throws InvalidArgument for what check()
/// refuses, for a segment that ends after the last node, and for a negative number of nodes.
ENCORE_API std::vector<bool> plan_recomputation(int64_t num_nodes, const CheckpointConfig& config);

namespace detail {

/// Counts the ops that this thread records while it lives; the random generator is then as it was before.
class ENCORE_API NodeCounter {
 public:
  NodeCounter();
  ~NodeCounter();
  NodeCounter(const NodeCounter&) = delete;
  NodeCounter& operator=(const NodeCounter&) = delete;
  int64_t count() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace detail

/// Calls f, drops its result and tells how many nodes it has: the number for CheckpointConfig::uniform. What f draws
/// from the default generator is put back; other things that f changes stay changed.
template <class F, class... Args>
int64_t count_nodes(F&& f, Args&&... args) {
  const detail::NodeCounter counter;
  static_cast<void>(detail::call(std::forward<F>(f), std::forward<Args>(args)...));
  return counter.count();
}

}  // namespace encore
