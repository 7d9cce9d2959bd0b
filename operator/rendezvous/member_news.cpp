#include "operator/rendezvous/member_news.h"

namespace lockstep::rendezvous {
namespace {

bool newer(const CheckpointReport& a, const std::optional<CheckpointReport>& b) {
  return !b || std::pair(a.generation, a.step) > std::pair(b->generation, b->step);
}

}  // namespace

void MemberNews::take(int rank, const WorkerMessage& message) {
  unsaid_ = unsaid_ || message.progress || message.checkpoint;
  if (message.progress && (!progress_ || rank <= progress_->first)) progress_ = {rank, *message.progress};
  if (message.checkpoint && newer(*message.checkpoint, checkpoint_)) {
    checkpoint_ = message.checkpoint;
    checkpoint_unsaid_ = true;
  }
}

void MemberNews::say(Heartbeat& heartbeat) {
  if (progress_) heartbeat.progress = progress_->second;
  heartbeat.newest_checkpoint = checkpoint_;
  unsaid_ = checkpoint_unsaid_ = identity_unsaid_ = false;
}

}  // namespace lockstep::rendezvous
