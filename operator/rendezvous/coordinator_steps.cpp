#include "operator/rendezvous/coordinator_steps.h"

namespace lockstep::rendezvous {

const char* name_of(Step step) {
  switch (step) {
    case Step::kLoading:
      return "loading";
    case Step::kResuming:
      return "resuming";
    case Step::kWaiting:
      return "waiting";
    case Step::kProposing:
      return "proposing";
    case Step::kStarting:
      return "starting";
    case Step::kUp:
      return "up";
    case Step::kBroken:
      return "broken";
    case Step::kFinished:
      return "finished";
    case Step::kStopping:
      return "stopping";
    case Step::kStopped:
      return "stopped";
  }
  return "";
}

const Proposal* Steps::proposal() const {
  if (const auto* proposing = std::get_if<step::Proposing>(&state_)) return &proposing->proposal;
  if (const auto* waiting = std::get_if<step::Waiting>(&state_))
    return waiting->proposal ? &*waiting->proposal : nullptr;
  const auto* broken = std::get_if<step::Broken>(&state_);
  return broken != nullptr && broken->proposal ? &*broken->proposal : nullptr;
}

Proposal* Steps::proposal() {
  return const_cast<Proposal*>(std::as_const(*this).proposal());
}

void Steps::set_proposal(std::optional<Proposal> proposal) {
  if (auto* waiting = std::get_if<step::Waiting>(&state_)) {
    waiting->proposal = std::move(proposal);
  } else if (auto* broken = std::get_if<step::Broken>(&state_)) {
    broken->proposal = std::move(proposal);
  }
}

std::optional<Proposal> Steps::take_proposal() {
  Proposal* proposal = this->proposal();
  if (proposal == nullptr) return std::nullopt;
  std::optional<Proposal> taken = std::move(*proposal);
  set_proposal(std::nullopt);
  return taken;
}

const Failure* Steps::failure() const {
  if (const auto* broken = std::get_if<step::Broken>(&state_)) return &broken->failure;
  const step::Stop* stop = this->stop();
  return stop != nullptr && stop->failure ? &*stop->failure : nullptr;
}

bool Steps::finished() const {
  const step::Stop* stop = this->stop();
  return now() == Step::kFinished || (stop != nullptr && stop->finished);
}

const step::Stop* Steps::stop() const {
  if (const auto* stopping = std::get_if<step::Stopping>(&state_)) return &stopping->stop;
  const auto* stopped = std::get_if<step::Stopped>(&state_);
  return stopped != nullptr ? &stopped->stop : nullptr;
}

}  // namespace lockstep::rendezvous
