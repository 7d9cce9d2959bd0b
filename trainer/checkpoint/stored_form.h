// How a file has a tensor: under another name, and with its dimensions in another order, than memory. So that other
// programs read a checkpoint as their own, and training keeps the order that is fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::trainer::checkpoint {

// Memory is seen as an array of shape `view`; dimension i of the file is dimension axes[i] of it, and the file says
// `shape`. An example is a convolution's weight in O, H, W, I, which a file has in O, I, H, W. Its view is (O, H, W,
// I), its axes (0, 3, 1, 2), its shape (O, I, H, W).
struct StoredForm {
  std::string name;                 // empty: the tensor's own
  std::vector<std::int64_t> view;   // empty: as in memory
  std::vector<int> axes;            // empty with `view`
  std::vector<std::int64_t> shape;  // empty with `view`

  bool reorders() const { return !view.empty(); }
  bool operator==(const StoredForm&) const = default;
};

// kInvalid: axes that are no permutation of the view's dimensions, or numbers of elements that differ from `count`.
Status check(const StoredForm& form, std::uint64_t count);

// Copies the elements that the file has from number `first` on. Both count elements of `width` bytes; `part` is a whole
// number of them, and the form reorders a tensor whose bytes are `memory`.
void gather(const StoredForm& form, size_t width, std::span<const std::byte> memory, std::uint64_t first,
            std::span<std::byte> part);
// The reverse.
void scatter(const StoredForm& form, size_t width, std::span<const std::byte> part, std::uint64_t first,
             std::span<std::byte> memory);

}  // namespace lockstep::trainer::checkpoint
