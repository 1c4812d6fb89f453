// Hashes of bytes.
#include "tape/fingerprint.h"

#include <array>
#include <cstring>

#include <xxhash.h>

#include "tape/compat.h"

namespace encore::tape {

namespace {

/// The hash of `pieces` pieces of the same size, from the first byte to the last.
uint64_t hash_pieces(const char* bytes, size_t nbytes, size_t pieces, size_t piece_bytes) {
  if (nbytes <= pieces * piece_bytes) {
    return XXH3_64bits(bytes, nbytes);
  }
  uint64_t hash = nbytes;
  for (size_t i = 0; i < pieces; ++i) {
    // The quotient first would leave out the end of a large storage.
    const size_t at = (nbytes - piece_bytes) * i / (pieces - 1);
    hash = XXH3_64bits_withSeed(bytes + at, piece_bytes, hash);
  }
  return hash;
}

/// The hash of few bytes, from the first to the last: looked for at every read of a weight, so hashed at once.
uint64_t hash_glance(const char* bytes, size_t nbytes) {
  constexpr size_t kGlances = 16;
  constexpr size_t kGlanceBytes = 16;
  if (nbytes <= kGlances * kGlanceBytes) {
    return XXH3_64bits(bytes, nbytes);
  }
  std::array<char, kGlances * kGlanceBytes> seen;
  for (size_t i = 0; i < kGlances; ++i) {
    std::memcpy(seen.data() + i * kGlanceBytes, bytes + (nbytes - kGlanceBytes) * i / (kGlances - 1), kGlanceBytes);
  }
  return XXH3_64bits_withSeed(seen.data(), seen.size(), nbytes);
}

}  // namespace

Fingerprint Fingerprint::of(const c10::Storage& storage, Coverage coverage) {
  constexpr size_t kPieceBytes = 256;
  const auto* bytes = static_cast<const char*>(compat::data_of(storage));
  const size_t nbytes = bytes == nullptr ? 0 : storage.nbytes();
  const uint64_t glance = hash_glance(bytes, nbytes);
  switch (coverage) {
    case Coverage::kGlance:
      return {glance, glance, coverage};
    case Coverage::kWide:
      return {hash_pieces(bytes, nbytes, kWideBytes / kPieceBytes, kPieceBytes), glance, coverage};
    case Coverage::kEveryByte:
      return {XXH3_64bits(bytes, nbytes), glance, coverage};
  }
  return {};
}

bool Fingerprint::is_of(const c10::Storage& storage) const {
  return of(storage, coverage).hash == hash;
}

bool Fingerprint::looks_like(const c10::Storage& storage) const {
  return coverage == Coverage::kEveryByte ? is_of(storage) : of(storage, Coverage::kGlance).glance == glance;
}

namespace {

constexpr size_t kImprintPieceBytes = 4096;

uint64_t hash_piece(const char* bytes, size_t nbytes, size_t piece) {
  const size_t at = piece * kImprintPieceBytes;
  return XXH3_64bits(bytes + at, std::min(kImprintPieceBytes, nbytes - at));
}

}  // namespace

Imprint::Imprint(const c10::Storage& storage) : nbytes_(storage.nbytes()) {
  const auto* bytes = static_cast<const char*>(compat::data_of(storage));
  pieces_.resize((nbytes_ + kImprintPieceBytes - 1) / kImprintPieceBytes);
  for (size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i] = hash_piece(bytes, nbytes_, i);
  }
}

bool Imprint::is_of(const c10::Storage& storage) const {
  return agrees(storage, 0, nbytes_);
}

bool Imprint::is_of(const c10::Storage& storage, const Geometry& part) const {
  const auto [first, end] = part.span();
  return agrees(storage, static_cast<size_t>(first), static_cast<size_t>(end));
}

bool Imprint::agrees(const c10::Storage& storage, size_t first, size_t end) const {
  if (storage.nbytes() != nbytes_) {
    return false;
  }
  const auto* bytes = static_cast<const char*>(compat::data_of(storage));
  for (size_t i = first / kImprintPieceBytes; i * kImprintPieceBytes < std::min(end, nbytes_); ++i) {
    if (hash_piece(bytes, nbytes_, i) != pieces_[i]) {
      return false;
    }
  }
  return true;
}

uint64_t hash_elements(const at::Tensor& tensor) {
  const Geometry geometry = Geometry::of(tensor);
  at::Tensor dense = tensor;
  if (!geometry.conj && !geometry.neg && !tensor.is_non_overlapping_and_dense()) {
    at::AutoDispatchBelowADInplaceOrView below;
    dense = tensor.contiguous();
  } else if (geometry.conj || geometry.neg) {
    at::AutoDispatchBelowADInplaceOrView below;
    dense = tensor.resolve_conj().resolve_neg().contiguous();
  }
  const auto* start = static_cast<const char*>(compat::data_of(dense.storage())) +
                      dense.storage_offset() * static_cast<int64_t>(dense.element_size());
  return XXH3_64bits(start, static_cast<size_t>(geometry.nbytes()));
}

}  // namespace encore::tape
