// Local SGD (Stich, 2018): each rank takes steps of its own, and every few steps the ranks average their parameters.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "trainer/sync/footer.h"

namespace lockstep::trainer::testing {

// In float32. Runs stochastic gradient descent itself, because what is averaged is the updated parameters.
class LocalSgd final : public core::Synchronizer {
 public:
  LocalSgd(float rate, std::int64_t period) : rate_(rate), period_(period) {}

  core::StateModel model() const override { return core::StateModel::kDivergent; }

  Status attach(const core::Attachment& to) override {
    work_.emplace(to);
    footer_.emplace(to);
    staged_.resize(to.layout.count);
    return {};
  }

  void use(comm::Communicator& communicator) override { communicator_ = &communicator; }

  Result<core::Share> begin(int attempt) override {
    footer_->begin(attempt, false);
    tickets_.clear();
    averages_ = (work_->state.step + 1) % period_ == 0;
    core::Share share{
        .first = communicator_->rank(), .stride = communicator_->size(), .end = work_->micro_batches, .samples = 0};
    const std::int64_t own = (share.end - share.first + share.stride - 1) / share.stride;
    share.samples = own * work_->graph.batch;
    return share;
  }

  Status ready(size_t, core::Turn) override { return {}; }

  void computed(double loss, std::span<const double> statistics, core::Turn turn) override {
    footer_->add(loss, statistics, turn.first);
  }

  Result<core::Agreement> finish(const core::Control& wish) override {
    LOCKSTEP_CHECK_OK(step());
    for (const core::Bucket& bucket : work_->layout.buckets) {
      if (averages_) LOCKSTEP_CHECK_OK(submit(bucket));
    }
    LOCKSTEP_TRY(auto ticket, footer_->submit(*communicator_, wish));
    tickets_.push_back(ticket);
    for (comm::Ticket each : tickets_) LOCKSTEP_CHECK_OK(communicator_->wait(each));
    if (averages_) {
      for (float& value : staged_) value /= static_cast<float>(communicator_->size());
    }
    return footer_->agreement();
  }

  void commit(const std::function<void()>&) override {
    work_->backend.write(work_->state.parameters->data(), staged_.data(), staged_.size() * sizeof(float));
    work_->state.changed();
    footer_->commit(false);
  }

 private:
  // The next parameters, on the host.
  Status step() {
    std::vector<float> gradients(staged_.size());
    work_->backend.read(gradients.data(), work_->gradients.data(), staged_.size() * sizeof(float));
    work_->backend.read(staged_.data(), work_->state.parameters->data(), staged_.size() * sizeof(float));
    LOCKSTEP_CHECK_OK(work_->backend.wait(work_->backend.mark()));
    for (size_t i = 0; i < staged_.size(); ++i) staged_[i] -= rate_ * gradients[i];
    return {};
  }

  Status submit(const core::Bucket& bucket) {
    LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::AllReduce{.data = staged_.data() + bucket.begin,
                                                                    .count = bucket.end - bucket.begin}));
    tickets_.push_back(ticket);
    return {};
  }

  const float rate_;
  const std::int64_t period_;
  std::optional<core::Attachment> work_;
  std::optional<sync::Footer> footer_;
  comm::Communicator* communicator_ = nullptr;
  bool averages_ = false;      // in this step
  std::vector<float> staged_;  // the next parameters
  std::vector<comm::Ticket> tickets_;
};

}  // namespace lockstep::trainer::testing
