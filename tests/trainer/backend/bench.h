// A graph on a backend with random parameters and inputs, for tests: the loss and its gradient as plain doubles.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "trainer/core/program.h"
#include "trainer/core/random.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::testing {

class Bench {
 public:
  // Parameters and real inputs are near normal around their initial values, indices below `classes`; the same for
  // every backend. The graph and the backend must outlive the bench.
  Bench(const core::Graph& graph, core::Backend& backend, std::int32_t classes = 1, core::ProgramOptions options = {})
      : graph_(graph), backend_(backend), layout_(core::lay_out(graph)) {
    state_ = core::State::create(graph, backend, layout_, {}).value();
    EXPECT_TRUE(state_->initialize(7).ok());
    gradients_ = backend.allocate(layout_.count * core::size_of(backend.real())).value();
    staged_.resize(state_->statistics.size());
    core::ProgramMemory memory{.layout = &layout_,
                               .parameters = state_->parameters->data(),
                               .gradients = gradients_->data(),
                               .statistics = state_->statistics.data(),
                               .staged_statistics = staged_.data()};
    program_ = core::Program::compile(graph, backend, memory, options).value();
    for (const core::Segment& segment : layout_.segments) {
      std::uint64_t key = core::derive(11, segment.name);
      for (size_t i = 0; i < segment.count; ++i) {
        size_t at = segment.offset + i;
        set_parameter(at, static_cast<float>(parameter(at) + 0.3 * core::normal(key, i)));
      }
    }
    std::uint64_t key = 13;
    for (core::TensorId id : graph.with_role(core::Role::kInput)) {
      auto count = static_cast<std::uint64_t>(core::count_of(graph.tensor(id).shape));
      key = core::mix(key);
      for (std::uint64_t i = 0; i < count; ++i) {
        if (graph.tensor(id).number == core::Number::kIndex) {
          static_cast<std::int32_t*>(program_->data(id))[i] =
              static_cast<std::int32_t>(core::derive(key, i) % static_cast<std::uint64_t>(classes));
        } else {
          put(program_->data(id), i, static_cast<float>(core::normal(key, i)));
        }
      }
    }
  }

  double get(const void* data, size_t at) const { return core::real_at(data, backend_.real(), at); }
  void put(void* data, size_t at, double value) {
    if (backend_.real() == core::ElementType::kFloat32) {
      static_cast<float*>(data)[at] = static_cast<float>(value);
    } else {
      static_cast<double*>(data)[at] = value;
    }
  }
  double parameter(size_t at) const { return get(state_->parameters->data(), at); }
  void set_parameter(size_t at, double value) { put(state_->parameters->data(), at, value); }

  // Sum of the samples' losses.
  double loss(core::RunContext::Mode mode = core::RunContext::Mode::kTrain) {
    context.mode = mode;
    EXPECT_TRUE(program_->forward(context, abort).ok());
    std::vector<std::byte> losses(program_->loss_bytes());
    program_->read_losses(losses.data());
    return program_->sum_of_losses(losses.data(), graph_.batch);
  }
  // Of loss(), by arena element.
  std::vector<double> gradient() {
    std::memset(gradients_->data(), 0, gradients_->bytes());
    loss();
    EXPECT_TRUE(program_->backward(context, abort).ok());
    std::vector<double> all(layout_.count);
    for (size_t i = 0; i < all.size(); ++i) all[i] = get(gradients_->data(), i);
    return all;
  }

  std::byte* gradient_data() { return gradients_->data(); }
  const core::Layout& layout() const { return layout_; }
  core::Program& program() { return *program_; }
  core::State& state() { return *state_; }
  const std::vector<double>& staged() const { return staged_; }

  core::RunContext context{.seed = 5, .step = 3, .first_sample = 8};
  std::atomic<bool> abort{false};

 private:
  const core::Graph& graph_;
  core::Backend& backend_;
  core::Layout layout_;
  std::unique_ptr<core::State> state_;
  std::unique_ptr<core::Memory> gradients_;
  std::vector<double> staged_;
  std::unique_ptr<core::Program> program_;
};

}  // namespace lockstep::trainer::testing
