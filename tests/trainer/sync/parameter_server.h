// An asynchronous parameter server inside one process: workers fetch parameters and push gradients whenever they like.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "trainer/core/synchronizer.h"

namespace lockstep::trainer::testing {

// Holds the parameters in float32 and runs stochastic gradient descent. Any thread.
class Server {
 public:
  explicit Server(float rate) : rate_(rate) {}

  // The first worker brings the initial parameters.
  void offer(const float* parameters, size_t count) {
    std::lock_guard lock(mutex_);
    if (parameters_.empty()) parameters_.assign(parameters, parameters + count);
  }
  void fetch(size_t begin, size_t end, float* to) const {
    std::lock_guard lock(mutex_);
    std::copy(parameters_.begin() + static_cast<std::ptrdiff_t>(begin),
              parameters_.begin() + static_cast<std::ptrdiff_t>(end), to + begin);
  }
  void push(const std::vector<float>& gradients) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < gradients.size(); ++i) parameters_[i] -= rate_ * gradients[i];
    ++pushes_;
  }
  bool empty() const {
    std::lock_guard lock(mutex_);
    return parameters_.empty();
  }
  int pushes() const {
    std::lock_guard lock(mutex_);
    return pushes_;
  }

 private:
  mutable std::mutex mutex_;
  const float rate_;
  std::vector<float> parameters_;
  int pushes_ = 0;
};

// A worker's side. Workers agree on nothing: loss and statistics are a worker's own.
class ParameterServer final : public core::Synchronizer {
 public:
  explicit ParameterServer(Server& server) : server_(server) {}

  core::StateModel model() const override { return core::StateModel::kServer; }

  Status attach(const core::Attachment& to) override {
    work_.emplace(to);
    statistics_.resize(to.statistics.size());
    parameters_.resize(to.layout.count);
    gradients_.resize(to.layout.count);
    return {};
  }

  void use(comm::Communicator& communicator) override { communicator_ = &communicator; }

  Result<core::Share> begin(int) override {
    LOCKSTEP_CHECK_OK(read(parameters_, work_->state.parameters->data()));
    server_.offer(parameters_.data(), parameters_.size());  // counts once
    loss_ = 0;
    batches_ = 0;
    std::fill(statistics_.begin(), statistics_.end(), 0.0);
    const std::int64_t first = communicator_->rank(), stride = communicator_->size(), end = work_->micro_batches;
    samples_ = (end - first + stride - 1) / stride * work_->graph.batch;
    return core::Share{.first = first, .stride = stride, .end = end, .samples = samples_};
  }

  Status need(size_t bucket) override {
    if (server_.empty()) return {};  // no worker has begun: each still holds the initial parameters
    const core::Bucket& at = work_->layout.buckets[bucket];
    server_.fetch(at.begin, at.end, parameters_.data());
    const size_t offset = at.begin * sizeof(float);
    work_->backend.write(work_->state.parameters->data() + offset, parameters_.data() + at.begin,
                         (at.end - at.begin) * sizeof(float));
    work_->state.changed();
    return work_->backend.wait(work_->backend.mark());  // the next need() may write the memory of this one
  }

  void computed(double loss, std::span<const double> statistics, core::Turn) override {
    loss_ += loss;
    batches_ += 1;
    for (size_t i = 0; i < statistics_.size(); ++i) statistics_[i] += statistics[i];
  }

  Status ready(size_t, core::Turn) override { return {}; }

  Result<core::Agreement> finish(const core::Control& wish) override {
    for (size_t i = 0; i < statistics_.size(); ++i) work_->statistics[i] = statistics_[i] / batches_;
    LOCKSTEP_CHECK_OK(read(gradients_, work_->gradients.data()));
    return core::Agreement{
        .loss = loss_ / static_cast<double>(samples_), .control = wish, .leaving = wish.leave ? 1 : 0};
  }

  void commit(const std::function<void()>&) override { server_.push(gradients_); }

 private:
  Status read(std::vector<float>& to, const std::byte* from) {
    work_->backend.read(to.data(), from, to.size() * sizeof(float));
    return work_->backend.wait(work_->backend.mark());
  }

  Server& server_;
  std::optional<core::Attachment> work_;
  comm::Communicator* communicator_ = nullptr;
  std::int64_t samples_ = 1;
  double loss_ = 0, batches_ = 0;
  std::vector<float> parameters_, gradients_;
  std::vector<double> statistics_;  // sums over this worker's micro-batches
};

}  // namespace lockstep::trainer::testing
