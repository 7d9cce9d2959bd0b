#include "operator/rendezvous/coordinator_modes.h"

namespace lockstep::rendezvous {

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::kLoading:
      return "loading";
    case Mode::kResuming:
      return "resuming";
    case Mode::kWaiting:
      return "waiting";
    case Mode::kProposing:
      return "proposing";
    case Mode::kStarting:
      return "starting";
    case Mode::kUp:
      return "up";
    case Mode::kBroken:
      return "broken";
    case Mode::kFinished:
      return "finished";
    case Mode::kStopping:
      return "stopping";
    case Mode::kStopped:
      return "stopped";
  }
  return "";
}

const Proposal* Modes::proposal() const {
  if (const auto* proposing = std::get_if<mode::Proposing>(&state_)) return &proposing->proposal;
  if (const auto* waiting = std::get_if<mode::Waiting>(&state_))
    return waiting->proposal ? &*waiting->proposal : nullptr;
  const auto* broken = std::get_if<mode::Broken>(&state_);
  return broken != nullptr && broken->proposal ? &*broken->proposal : nullptr;
}

Proposal* Modes::proposal() {
  return const_cast<Proposal*>(std::as_const(*this).proposal());
}

void Modes::set_proposal(std::optional<Proposal> proposal) {
  if (auto* waiting = std::get_if<mode::Waiting>(&state_)) {
    waiting->proposal = std::move(proposal);
  } else if (auto* broken = std::get_if<mode::Broken>(&state_)) {
    broken->proposal = std::move(proposal);
  }
}

std::optional<Proposal> Modes::take_proposal() {
  Proposal* proposal = this->proposal();
  if (proposal == nullptr) return std::nullopt;
  std::optional<Proposal> taken = std::move(*proposal);
  set_proposal(std::nullopt);
  return taken;
}

const Failure* Modes::failure() const {
  if (const auto* broken = std::get_if<mode::Broken>(&state_)) return &broken->failure;
  const mode::Stop* stop = this->stop();
  return stop != nullptr && stop->failure ? &*stop->failure : nullptr;
}

bool Modes::finished() const {
  const mode::Stop* stop = this->stop();
  return now() == Mode::kFinished || (stop != nullptr && stop->finished);
}

const mode::Stop* Modes::stop() const {
  if (const auto* stopping = std::get_if<mode::Stopping>(&state_)) return &stopping->stop;
  const auto* stopped = std::get_if<mode::Stopped>(&state_);
  return stopped != nullptr ? &stopped->stop : nullptr;
}

}  // namespace lockstep::rendezvous
