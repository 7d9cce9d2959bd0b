// The synchronizer of replicated training: micro-batch j of the global batch goes to rank j mod n, and each gradient
// bucket is summed over all ranks as soon as it is complete, while earlier layers still compute. Every rank then runs
// the optimizer on the same bits.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/core/synchronizer.h"
#include "trainer/sync/footer.h"

namespace lockstep::trainer::sync {

struct AllReduceOptions {
  // Gradients of each micro-batch are rounded once and summed as integers (core/fixed_point.h), so that the committed
  // state does not depend on the number of ranks.
  bool deterministic = false;
};

class AllReduce final : public core::Synchronizer {
 public:
  explicit AllReduce(const AllReduceOptions& options) : options_(options) {}

  core::StateModel model() const override { return core::StateModel::kReplicated; }
  // kInvalid: more micro-batches than integers can sum.
  Status attach(const core::Attachment& to) override;
  void use(comm::Communicator& communicator) override;
  Result<core::Share> begin(int attempt) override;
  void computed(double loss, core::Turn turn) override { footer_->add(loss, turn.first); }
  Status ready(size_t bucket, core::Turn turn) override;
  Result<core::Agreement> finish(const core::Control& wish) override;
  void commit(const std::function<void()>& optimize) override;

 private:
  void round(const core::Bucket& bucket, bool first);
  Status submit(const core::Bucket& bucket);
  Status wait_for_all();
  void unround();

  const AllReduceOptions options_;
  std::optional<core::Attachment> work_;
  std::optional<Footer> footer_;
  comm::Communicator* communicator_ = nullptr;
  core::Share share_;
  std::vector<std::int64_t> sums_;     // deterministic: rounded gradients, laid out like them
  std::vector<comm::Ticket> tickets_;  // in the order of submission
};

}  // namespace lockstep::trainer::sync
