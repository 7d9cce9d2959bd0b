// A graph on a backend with random parameters and inputs, for tests: the loss and its gradient as plain doubles.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "trainer/core/program.h"
#include "trainer/core/random.h"
#include "trainer/core/state.h"

namespace lockstep::trainer::testing {

class Bench {
 public:
  // Parameters are near normal around their initial values, with `deviation`; real inputs are near normal, indices
  // below `classes`; the same for every backend. The graph and the backend must outlive the bench.
  Bench(const core::Graph& graph, core::Backend& backend, std::int32_t classes = 1, core::ProgramOptions options = {},
        double deviation = 0.3)
      : graph_(graph), backend_(backend), layout_(core::lay_out(graph)) {
    state_ = core::State::create(graph, backend, layout_, {}).value();
    EXPECT_TRUE(state_->initialize(7).ok());
    gradients_ = backend.allocate(layout_.count * core::size_of(backend.real())).value();
    staged_.resize(state_->statistics.size());
    statistics_ = backend.allocate(staged_.size() * sizeof(double)).value();
    staged_statistics_ = backend.allocate(staged_.size() * sizeof(double)).value();
    core::ProgramMemory memory{.layout = &layout_,
                               .parameters = state_->parameters->data(),
                               .gradients = gradients_->data(),
                               .statistics = reinterpret_cast<double*>(statistics_->data()),
                               .staged_statistics = reinterpret_cast<double*>(staged_statistics_->data())};
    program_ = core::Program::compile(graph, backend, memory, options).value();
    std::vector<double> parameters = all(state_->parameters->data(), layout_.count);
    for (const core::Segment& segment : layout_.segments) {
      std::uint64_t key = core::derive(11, segment.name);
      for (size_t i = 0; i < segment.count; ++i) {
        double& parameter = parameters[segment.offset + i];
        parameter = static_cast<float>(parameter + deviation * core::normal(key, i));
      }
    }
    set_all(state_->parameters->data(), parameters);
    std::uint64_t key = 13;
    for (core::TensorId id : graph.with_role(core::Role::kInput)) {
      auto count = static_cast<std::uint64_t>(core::count_of(graph.tensor(id).shape));
      key = core::mix(key);
      std::vector<std::int32_t> indices;
      std::vector<double> reals;
      for (std::uint64_t i = 0; i < count; ++i) {
        if (graph.tensor(id).number == core::Number::kIndex) {
          indices.push_back(static_cast<std::int32_t>(core::derive(key, i) % static_cast<std::uint64_t>(classes)));
        } else {
          reals.push_back(static_cast<float>(core::normal(key, i)));
        }
      }
      auto* to = static_cast<std::byte*>(program_->data(id));
      if (reals.empty()) {
        write(to, indices.data(), indices.size() * sizeof indices[0]);
      } else {
        set_all(to, reals);
      }
    }
  }

  double get(const void* data, size_t at) const { return all(data, 1, at)[0]; }
  void put(void* data, size_t at, double value) { set_all(data, {value}, at); }
  // `count` elements of the backend's memory from element `first` on.
  std::vector<double> all(const void* data, size_t count, size_t first = 0) const {
    const size_t width = core::size_of(backend_.real());
    const std::byte* from = static_cast<const std::byte*>(data) + first * width;
    std::vector<std::byte> bytes(count * width);
    backend_.read(bytes.data(), from, bytes.size());
    EXPECT_TRUE(backend_.wait(backend_.mark()).ok());
    std::vector<double> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = core::real_at(bytes.data(), backend_.real(), i);
    return values;
  }
  void set_all(void* data, const std::vector<double>& values, size_t first = 0) {
    const size_t width = core::size_of(backend_.real());
    std::byte* to = static_cast<std::byte*>(data) + first * width;
    if (backend_.real() == core::ElementType::kFloat32) {
      const std::vector<float> narrow(values.begin(), values.end());
      write(to, narrow.data(), narrow.size() * width);
    } else {
      write(to, values.data(), values.size() * width);
    }
  }
  double parameter(size_t at) const { return get(state_->parameters->data(), at); }
  void set_parameter(size_t at, double value) { put(state_->parameters->data(), at, value); }

  // Sum of the samples' losses.
  double loss(core::RunContext::Mode mode = core::RunContext::Mode::kTrain) {
    context.mode = mode;
    write(statistics_->data(), state_->statistics.data(), statistics_->bytes());
    EXPECT_TRUE(program_->forward(context, abort).ok());
    std::vector<std::byte> losses(program_->loss_bytes());
    program_->read_losses(losses.data());
    read_staged();
    return program_->sum_of_losses(losses.data(), graph_.batch);
  }
  // Of loss(), by arena element. Values that are computed again are NaN before the backward pass, if `spoil`; the
  // tensors must not share memory then.
  std::vector<double> gradient(bool spoil = false) {
    backend_.clear(gradients_->data(), gradients_->bytes());
    loss();
    if (spoil) spoil_recomputed();
    EXPECT_TRUE(program_->backward(context, abort).ok());
    read_staged();
    return all(gradients_->data(), layout_.count);
  }

  // The same of a backward pass that may overwrite, over an arena that holds NaN there.
  std::vector<double> overwritten_gradient() {
    set_all(gradients_->data(), std::vector<double>(layout_.count, std::numeric_limits<double>::quiet_NaN()));
    program_->clear_added();
    loss();
    context.overwrites = true;
    EXPECT_TRUE(program_->backward(context, abort).ok());
    context.overwrites = false;
    return all(gradients_->data(), layout_.count);
  }

  std::byte* gradient_data() { return gradients_->data(); }
  const core::Layout& layout() const { return layout_; }
  core::Program& program() { return *program_; }
  core::State& state() { return *state_; }
  const std::vector<double>& staged() const { return staged_; }

  core::RunContext context{.seed = 5, .step = 3, .first_sample = 8};
  std::atomic<bool> abort{false};

 private:
  void read_staged() {
    backend_.read(staged_.data(), staged_statistics_->data(), staged_statistics_->bytes());
    EXPECT_TRUE(backend_.wait(backend_.mark()).ok());
  }
  void spoil_recomputed() {
    const core::Lowered& lowered = program_->lowered();
    for (const std::vector<size_t>& steps : program_->recomputation().before) {
      for (const size_t step : steps) {
        const core::TensorId id = lowered.steps[step].writes[0];
        const std::vector<std::uint8_t> nan(lowered.value_bytes[static_cast<size_t>(id)], 0xff);
        write(static_cast<std::byte*>(program_->data(id)), nan.data(), nan.size());
      }
    }
  }
  void write(std::byte* to, const void* from, size_t bytes) {
    backend_.write(to, from, bytes);
    EXPECT_TRUE(backend_.wait(backend_.mark()).ok());
  }

  const core::Graph& graph_;
  core::Backend& backend_;
  core::Layout layout_;
  std::unique_ptr<core::State> state_;
  std::unique_ptr<core::Memory> gradients_;
  std::vector<double> staged_;
  std::unique_ptr<core::Memory> statistics_, staged_statistics_;
  std::unique_ptr<core::Program> program_;
};

}  // namespace lockstep::trainer::testing
