#include "trainer/checkpoint/stored_form.h"

#include <fmt/format.h>

#include <cstring>

namespace lockstep::trainer::checkpoint {

namespace {

// Walks the elements of memory in the order of the file.
class Walk {
 public:
  Walk(const StoredForm& form, std::uint64_t first) : sizes_(form.axes.size()), strides_(form.axes.size()) {
    std::vector<std::uint64_t> strides(form.view.size(), 1);
    for (size_t i = form.view.size() - 1; i > 0; --i) {
      strides[i - 1] = strides[i] * static_cast<std::uint64_t>(form.view[i]);
    }
    for (size_t i = 0; i < form.axes.size(); ++i) {
      const auto axis = static_cast<size_t>(form.axes[i]);
      sizes_[i] = static_cast<std::uint64_t>(form.view[axis]);
      strides_[i] = strides[axis];
    }
    place_.resize(sizes_.size());
    for (size_t i = sizes_.size(); i-- > 0; first /= sizes_[i]) {
      place_[i] = first % sizes_[i];
      at_ += place_[i] * strides_[i];
    }
  }

  std::uint64_t at() const { return at_; }  // of the element, in elements
  void next() {
    for (size_t i = sizes_.size(); i-- > 0;) {
      at_ += strides_[i];
      if (++place_[i] < sizes_[i]) return;
      at_ -= sizes_[i] * strides_[i];
      place_[i] = 0;
    }
  }

 private:
  std::vector<std::uint64_t> sizes_, strides_, place_;  // by dimension of the file
  std::uint64_t at_ = 0;
};

template <typename Copy>
void each(const StoredForm& form, std::uint64_t first, size_t count, Copy copy) {
  if (count == 0) return;
  Walk walk(form, first);
  for (size_t i = 0; i < count; ++i, walk.next()) copy(i, walk.at());
}

}  // namespace

Status check(const StoredForm& form, std::uint64_t count) {
  const auto bad = [](const char* what) {
    return fail(ErrorCode::kInvalid, fmt::format("the form in which a tensor is stored {}", what));
  };
  if (!form.reorders()) return form.axes.empty() && form.shape.empty() ? Status() : bad("has no view");
  std::vector<bool> seen(form.view.size());
  if (form.axes.size() != form.view.size()) return bad("does not name each dimension once");
  for (const int axis : form.axes) {
    if (axis < 0 || static_cast<size_t>(axis) >= seen.size() || seen[static_cast<size_t>(axis)]) {
      return bad("does not name each dimension once");
    }
    seen[static_cast<size_t>(axis)] = true;
  }
  for (const auto* dimensions : {&form.view, &form.shape}) {
    std::uint64_t product = 1;
    for (const std::int64_t dimension : *dimensions) {
      if (dimension < 0 || __builtin_mul_overflow(product, static_cast<std::uint64_t>(dimension), &product)) {
        return bad("has a size that is none");
      }
    }
    if (product != count) return bad("has another number of elements");
  }
  return {};
}

void gather(const StoredForm& form, size_t width, std::span<const std::byte> memory, std::uint64_t first,
            std::span<std::byte> part) {
  each(form, first, part.size() / width,
       [&](size_t i, std::uint64_t at) { std::memcpy(part.data() + i * width, memory.data() + at * width, width); });
}

void scatter(const StoredForm& form, size_t width, std::span<const std::byte> part, std::uint64_t first,
             std::span<std::byte> memory) {
  each(form, first, part.size() / width,
       [&](size_t i, std::uint64_t at) { std::memcpy(memory.data() + at * width, part.data() + i * width, width); });
}

}  // namespace lockstep::trainer::checkpoint
