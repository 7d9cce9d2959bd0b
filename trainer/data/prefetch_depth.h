// How many batches a prefetcher keeps ahead. More of them help against reads whose times vary, and cost memory. So it
// begins with two, or as many as give each thread something to read. It doubles when the batches of a full window were
// all used before a slow read ended. Storage that is slower than training in the mean fills the window only while
// training pauses. tf.data finds the size of its buffers by the same rule.
#pragma once

#include <algorithm>
#include <cstddef>

namespace lockstep::trainer::data {

// Not for several threads at a time.
class PrefetchDepth {
 public:
  static constexpr std::size_t kFewest = 2, kMost = 64;

  // `fixed`: the number that never changes; 0: one that is found.
  explicit PrefetchDepth(std::size_t fixed) : fixed_(fixed > 0), batches_(fixed > 0 ? fixed : kFewest) {}

  std::size_t batches() const { return batches_; }
  // So many keep all threads busy.
  void at_least(std::size_t batches) {
    if (!fixed_) batches_ = std::max(batches_, std::min(batches, kMost));
  }
  // All batches() of them are ready.
  void full() { was_full_ = true; }
  // Training has to wait for a batch.
  void late() {
    if (!fixed_ && was_full_) batches_ = std::min(2 * batches_, kMost);
    was_full_ = false;
  }
  // The window was dropped, or training pauses: the next wait says nothing of storage.
  void dropped() { was_full_ = false; }

 private:
  bool fixed_;
  bool was_full_ = false;  // since the last batch that was late
  std::size_t batches_;
};

}  // namespace lockstep::trainer::data
