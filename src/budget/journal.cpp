// Hashes of what happened.
#include "budget/journal.h"

#include <xxhash.h>

namespace encore::budget {
namespace {

/// Small numbers, hashed together at the end.
class Digest {
 public:
  explicit Digest(uint64_t seed) : seed_(seed) {}
  void add(uint64_t number) { numbers_.push_back(number); }
  uint64_t value() const { return XXH3_64bits_withSeed(numbers_.data(), numbers_.size() * sizeof(uint64_t), seed_); }

 private:
  uint64_t seed_;
  c10::SmallVector<uint64_t, 64> numbers_;
};

void add_geometry(Digest& digest, const tape::Geometry& geometry) {
  for (const int64_t size : geometry.sizes) {
    digest.add(static_cast<uint64_t>(size));
  }
  digest.add(static_cast<uint64_t>(geometry.dtype));
}

}  // namespace

uint64_t token_of(tape::ValueId value) {
  return XXH3_64bits(&value, sizeof(value));
}

uint64_t extend_path(uint64_t path, const tape::Tape& tape, tape::OpId id) {
  const tape::Op& op = tape.ops()[static_cast<size_t>(id)];
  Digest digest(path);
  digest.add(op.info->name_hash);  // an address would differ between processes
  digest.add(c10::GradMode::is_enabled() ? 1 : 0);
  for (const tape::TensorArg& arg : op.tensors) {
    digest.add(static_cast<uint64_t>(arg.value));
    add_geometry(digest, *arg.geometry);
  }
  for (const tape::Write& write : op.writes) {
    digest.add(static_cast<uint64_t>(write.after));
  }
  for (const tape::Output& output : op.outputs) {
    digest.add(static_cast<uint64_t>(output.value));
    add_geometry(digest, *output.geometry);
    if (output.value != tape::kNone) {
      digest.add(static_cast<uint64_t>(tape.value(output.value).nbytes));
    }
  }
  return digest.value();
}

uint64_t extend_path(uint64_t path, const Event& event) {
  Digest digest(path);
  digest.add(XXH3_64bits(event.node.data(), event.node.size()));
  for (const tape::ValueId value : event.asked) {
    digest.add(static_cast<uint64_t>(value));
  }
  return digest.value();
}

}  // namespace encore::budget
