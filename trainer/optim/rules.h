// Each rule's update in memory of the host, one file a rule. host_update.h chooses among them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trainer/core/digest.h"
#include "trainer/core/norm.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/parallel.h"
#include "trainer/core/tensor.h"

namespace lockstep::trainer::optim {

// An update and how the host computes it.
struct Run {
  const core::Optimizer& optimizer;
  const core::Update& update;
  core::ElementType real;  // of the arenas
  int threads;
  core::NormTree& norms;
};

// Each returns the sum of the digests of parameters and slots as it left them.
std::uint64_t apply(const core::Sgd& rule, const Run& run);
std::uint64_t apply(const core::AdamW& rule, const Run& run);
std::uint64_t apply(const core::Lars& rule, const Run& run);

// One segment of the arenas. `Slots`: how many the rule has.
template <typename Real, size_t Slots>
struct Piece {
  Piece(const core::Update& update, size_t segment)
      : number(segment),
        count(update.layout->segments[segment].count),
        parameters(static_cast<Real*>(update.parameters) + update.layout->segments[segment].offset),
        gradients(static_cast<const Real*>(update.gradients) + update.layout->segments[segment].offset) {
    for (size_t i = 0; i < Slots; ++i) {
      slots[i] = static_cast<Real*>(update.slots[i]) + update.layout->segments[segment].offset;
    }
  }

  size_t number;                   // of the segment
  size_t count;                    // elements
  Real* parameters;                // (count)
  const Real* gradients;           // (count)
  std::array<Real*, Slots> slots;  // (count) each
};

// Calls body(begin, end) for each block of the piece, and returns the digest of what it wrote, taken while the block is
// in the cache.
template <typename Real, size_t Slots, typename Body>
std::uint64_t update_blocks(const Piece<Real, Slots>& piece, int threads, const Body& body) {
  core::DigestSum digests;
  core::for_blocks(piece.count, threads, [&](size_t block, size_t begin, size_t end) {
    body(begin, end);
    const size_t bytes = (end - begin) * sizeof(Real);
    std::uint64_t sum =
        core::digest_of_block(core::array_of(piece.number, 0, Slots), block, piece.parameters + begin, bytes);
    for (size_t i = 0; i < Slots; ++i) {
      sum += core::digest_of_block(core::array_of(piece.number, i + 1, Slots), block, piece.slots[i] + begin, bytes);
    }
    digests.add(sum);
  });
  return digests.value();
}

// The sum of update_segment(segment's number, Real()) over all segments, where Real is the arenas' type.
template <typename UpdateSegment>
std::uint64_t for_segments(const Run& run, const UpdateSegment& update_segment) {
  std::uint64_t digest = 0;
  for (size_t i = 0; i < run.update.layout->segments.size(); ++i) {
    digest += run.real == core::ElementType::kFloat32 ? update_segment(i, float{}) : update_segment(i, double{});
  }
  return digest;
}

}  // namespace lockstep::trainer::optim
