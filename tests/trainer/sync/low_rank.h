// Low-rank compression in two rounds (PowerSGD, Vogels et al., 2019). The gradient M of a matrix travels as P = M Q and
// then Q = M^T P with orthonormal P. What P Q^T lacks of M is added to the next gradient.
#pragma once

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/core/random.h"
#include "trainer/sync/footer.h"

namespace lockstep::trainer::testing {

// In float32. Vectors travel as they are, in the first round.
class LowRank final : public core::Synchronizer {
 public:
  explicit LowRank(size_t rank) : rank_(rank) {}

  core::StateModel model() const override { return core::StateModel::kReplicated; }
  Status attach(const core::Attachment& to) override {
    work_.emplace(to);
    footer_.emplace(to);
    gradients_ = staged_ = residuals_ = std::vector<float>(to.layout.count);
    factors_.resize(to.layout.segments.size());
    return {};
  }

  void use(comm::Communicator& communicator) override { communicator_ = &communicator; }
  Result<core::Share> begin(int attempt) override {
    footer_->begin(attempt, false);
    tickets_.clear();
    return core::Share{.first = communicator_->rank(),
                       .stride = communicator_->size(),
                       .end = work_->micro_batches,
                       .samples = work_->micro_batches * work_->graph.batch};
  }
  Status ready(size_t, core::Turn) override { return {}; }
  void computed(double loss, std::span<const double> statistics, core::Turn turn) override {
    footer_->add(loss, statistics, turn.first);
  }

  Result<core::Agreement> finish(const core::Control& wish) override {
    work_->backend.read(gradients_.data(), work_->gradients.data(), gradients_.size() * sizeof(float));
    LOCKSTEP_CHECK_OK(work_->backend.wait(work_->backend.mark()));
    for (size_t i = 0; i < factors_.size(); ++i) LOCKSTEP_CHECK_OK(first_round(i));
    LOCKSTEP_CHECK_OK(wait());
    for (size_t i = 0; i < factors_.size(); ++i) LOCKSTEP_CHECK_OK(second_round(i));
    LOCKSTEP_TRY(auto ticket, footer_->submit(*communicator_, wish));
    tickets_.push_back(ticket);
    LOCKSTEP_CHECK_OK(wait());
    for (size_t i = 0; i < factors_.size(); ++i) restore(i);
    work_->backend.write(work_->gradients.data(), gradients_.data(), gradients_.size() * sizeof(float));
    return footer_->agreement();
  }
  void commit(const std::function<void()>& optimize) override {
    optimize();
    residuals_.swap(staged_);
    footer_->commit(false);
  }

 private:
  struct Factors {
    std::vector<float> p, q;  // of a matrix (n, m): (n, rank), (m, rank)
  };

  const core::Segment& segment(size_t i) const { return work_->layout.segments[i]; }
  bool is_matrix(size_t i) const { return segment(i).shape.size() == 2; }
  size_t columns(size_t i) const { return static_cast<size_t>(segment(i).shape[1]); }
  float* gradient(size_t i) { return gradients_.data() + segment(i).offset; }

  // M, with what was left over before, is staged as the next residual. P = M Q with a Q that all ranks know.
  Status first_round(size_t i) {
    if (!is_matrix(i)) return submit(gradient(i), segment(i).count);
    auto& [p, q] = factors_[i];
    p.assign(segment(i).count / columns(i) * rank_, 0.0F);
    q.resize(columns(i) * rank_);
    for (size_t k = 0; k < q.size(); ++k) q[k] = static_cast<float>(core::normal(i, k));
    float* m = staged_.data() + segment(i).offset;
    for (size_t k = 0; k < segment(i).count; ++k) m[k] = gradient(i)[k] + residuals_[segment(i).offset + k];
    each(i, [&](size_t at, size_t in_p, size_t in_q) { p[in_p] += m[at] * q[in_q]; });
    return submit(p.data(), p.size());
  }

  Status second_round(size_t i) {
    if (!is_matrix(i)) return {};
    auto& [p, q] = factors_[i];
    orthonormalize(p);
    q.assign(columns(i) * rank_, 0.0F);
    float* m = staged_.data() + segment(i).offset;
    each(i, [&](size_t at, size_t in_p, size_t in_q) { q[in_q] += m[at] * p[in_p]; });
    each(i, [&](size_t at, size_t in_p, size_t in_q) { m[at] -= p[in_p] * q[in_q]; });
    return submit(q.data(), q.size());
  }

  void restore(size_t i) {
    if (!is_matrix(i)) return;
    auto& [p, q] = factors_[i];
    std::fill_n(gradient(i), segment(i).count, 0.0F);
    each(i, [&](size_t at, size_t in_p, size_t in_q) { gradient(i)[at] += p[in_p] * q[in_q]; });
  }

  template <typename Visit>
  void each(size_t i, Visit visit) const {
    for (size_t at = 0; at < segment(i).count; ++at) {
      for (size_t r = 0; r < rank_; ++r) visit(at, at / columns(i) * rank_ + r, at % columns(i) * rank_ + r);
    }
  }

  // Gram-Schmidt; a column that depends on earlier ones becomes zero.
  void orthonormalize(std::vector<float>& p) const {
    auto dot = [&](size_t a, size_t b) {
      double sum = 0;
      for (size_t row = 0; row < p.size(); row += rank_) sum += static_cast<double>(p[row + a]) * p[row + b];
      return sum;
    };
    for (size_t a = 0; a < rank_; ++a) {
      const double before = std::sqrt(dot(a, a));
      for (size_t b = 0; b < a; ++b) {
        const auto along = static_cast<float>(dot(a, b));
        for (size_t row = 0; row < p.size(); row += rank_) p[row + a] -= along * p[row + b];
      }
      const double norm = std::sqrt(dot(a, a));
      const auto scale = static_cast<float>(norm > 1e-5 * before ? 1 / norm : 0);
      for (size_t row = 0; row < p.size(); row += rank_) p[row + a] *= scale;
    }
  }

  Status submit(float* data, size_t count) {
    LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::AllReduce{.data = data, .count = count}));
    tickets_.push_back(ticket);
    return {};
  }

  Status wait() {
    for (comm::Ticket ticket : std::exchange(tickets_, {})) LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
    return {};
  }

  const size_t rank_;
  std::optional<core::Attachment> work_;
  std::optional<sync::Footer> footer_;
  comm::Communicator* communicator_ = nullptr;
  std::vector<float> gradients_;
  std::vector<float> residuals_, staged_;  // private: committed, and of this step
  std::vector<Factors> factors_;           // by segment
  std::vector<comm::Ticket> tickets_;
};

}  // namespace lockstep::trainer::testing
