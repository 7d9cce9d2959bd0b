// The synchronizer of replicated training: micro-batch j of the global batch goes to rank j mod n. Each gradient bucket
// is summed over all ranks as soon as it is complete, while earlier layers still compute. Every rank then runs the
// optimizer on bitwise identical gradients.
//
// What travels lies where the host reaches it, or is copied there and back. Where backend and communicator share a GPU,
// it is summed in that GPU's memory (comm/device_reducer.h). In place a bucket is handed over with the backend's event,
// before the GPU has completed it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/comm/device_reducer.h"
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
  Status ready(size_t bucket, core::Turn turn) override;
  void computed(double loss, std::span<const double> statistics, core::Turn turn) override {
    footer_->add(loss, statistics, turn.first);
  }
  Result<core::Agreement> finish(const core::Control& wish) override;
  void commit(const std::function<void()>& optimize) override;

 private:
  // What travels: gradients or, rounded, their sums.
  std::byte* traveller() const { return (sums_ ? *sums_ : work_->gradients).data(); }

  void round(const core::Bucket& bucket, bool first);
  // Whether it travels by way of staging_.
  bool staged() const { return on_gpu_ == nullptr && !on_host_; }
  size_t bytes() const { return work_->layout.count * width_; }

  void leave(size_t bucket);
  Status submit_reached();
  Status submit_next();
  Status submit_all();
  Status wait_for_all();
  void install();

  // A bucket on its way: it is complete when the backend has reached the mark.
  struct Leaving {
    size_t bucket = 0;
    core::Mark mark;
  };

  const AllReduceOptions options_;
  std::optional<core::Attachment> work_;
  std::optional<Footer> footer_;
  comm::Communicator* communicator_ = nullptr;
  comm::DeviceReducer* on_gpu_ = nullptr;  // sums in place; null: the communicator moves memory of the host
  core::Share share_;
  size_t width_ = 0;                         // bytes of an element that travels
  std::unique_ptr<core::Memory> sums_;       // deterministic: int64, laid out like the gradients
  bool on_host_ = false;                     // the host reaches the backend's memory
  std::vector<std::byte> staging_;           // what travels, if staged()
  std::vector<core::RoundingFlags> flags_;   // by segment
  std::vector<std::uint64_t> largest_sums_;  // by segment
  std::vector<Leaving> leaving_;             // in the order of the layout
  size_t submitted_ = 0;                     // of leaving_
  std::vector<comm::Ticket> tickets_;        // in the order of submission
};

}  // namespace lockstep::trainer::sync
