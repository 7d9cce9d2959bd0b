// The seam between a step and the data: samples as a pure function of their place.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::trainer::core {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Writes the sample at `position` of the run (step times global batch, plus its place in the batch) as row `row` of
  // the inputs, which are the graph's kInput tensors in order. The same position gives the same sample on every rank.
  virtual void write(std::int64_t position, std::int64_t row, std::span<void* const> inputs) const = 0;

  // Samples that are never trained on, and one of them.
  virtual std::int64_t held_out() const = 0;
  virtual void write_held_out(std::int64_t index, std::int64_t row, std::span<void* const> inputs) const = 0;
};

}  // namespace lockstep::trainer::core
