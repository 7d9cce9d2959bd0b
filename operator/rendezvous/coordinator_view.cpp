// What people and the controller see of a job: CoordinatorState::view().
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "operator/rendezvous/coordinator_state.h"

namespace lockstep::rendezvous {
namespace {

// "slot 3", "slots 1, 2 and 14 more"
std::string slots_in_words(const std::vector<int>& slots) {
  constexpr std::size_t kNamed = 8;
  const std::vector<int> named(slots.begin(), slots.begin() + static_cast<long>(std::min(kNamed, slots.size())));
  std::string words = fmt::format("{} {}", slots.size() == 1 ? "slot" : "slots", fmt::join(named, ", "));
  if (slots.size() > kNamed) words += fmt::format(" and {} more", slots.size() - kNamed);
  return words;
}

}  // namespace

std::string CoordinatorState::waiting_message() const {
  if (keeper_.deposed()) return "another coordinator of a later term has taken over";
  const std::string store = keeper_.error().empty() ? "" : " (" + keeper_.error() + ")";
  std::vector<int> slots;
  switch (mode()) {
    case Mode::kLoading:
      return "waiting for the job's record to be read" + store;
    case Mode::kWaiting:
      for (int slot = 0; slot < plan_->slots; ++slot) {
        const Member* member = contacts_.find(slot);
        if (member == nullptr || member->session == 0 || member->expected.leaving) slots.push_back(slot);
      }
      if (!slots.empty()) return "waiting for " + slots_in_words(slots) + " to connect";
      if (!keeper_.record()) return "waiting for the job's record to be read" + store;
      for (const auto& [slot, member] : contacts_.members()) {
        if (member.told.warmed_at && member.phase != MemberPhase::kWarm && member.generation == 0)
          slots.push_back(slot);
      }
      if (!slots.empty()) return "waiting for the processes of " + slots_in_words(slots) + " to be ready to start";
      return "waiting for a member that is silent";
    case Mode::kResuming:
      for (const auto& [slot, member] : contacts_.members()) {
        if (member.session == 0 && generation_.has(member)) slots.push_back(slot);
      }
      return "waiting for " + slots_in_words(slots) + " to report after a new coordinator took over";
    case Mode::kProposing:
      for (const auto& [slot, incarnation] : modes_.proposal()->places()) {
        if (modes_.proposal()->ready.count(slot) == 0) slots.push_back(slot);
      }
      if (!slots.empty()) return "waiting for " + slots_in_words(slots) + " to end older processes and be ready";
      return "waiting for the job's record to be written" + store;
    case Mode::kStarting:
      for (const auto& [slot, incarnation] : gang().places()) {
        if (!gang().is_up(slot)) slots.push_back(slot);
      }
      return "waiting for the processes of " + slots_in_words(slots) + " to come up";
    case Mode::kBroken:
      return modes_.failure()->message.substr(0, modes_.failure()->message.find('\n'));
    case Mode::kFinished:
      return "every rank has exited with 0";
    case Mode::kStopping:
      return "waiting for the processes to end";
    case Mode::kUp:
      for (const auto& [slot, member] : contacts_.members()) {
        if (const auto difference = differs_from_gang(member)) {
          return fmt::format("slot {} is not taken in: {}", slot, in_words(*difference));
        }
        if (!unreaching(member)) continue;
        return fmt::format("slot {} is not taken in, because it does not reach {}", slot, member.told.reach->problem);
      }
      if (!gang().yields_since) break;
      if (gang().size() > gang_size()) return "the gang will be smaller after this step";
      for (const auto& [slot, member] : contacts_.members()) {
        const bool warm = member.phase == MemberPhase::kWarm || !contacts_.all_regroup(gang());
        if (member.session != 0 && !generation_.has(member) && warm) slots.push_back(slot);
      }
      if (!slots.empty()) return slots_in_words(slots) + " will join after this step";
      break;
    case Mode::kStopped:
      break;
  }
  return "";
}

std::optional<JobView> CoordinatorState::view() const {
  if (!plan_) return std::nullopt;
  if (!plan_->stop &&
      (mode() == Mode::kLoading || (mode() == Mode::kResuming && !contacts_.may_evict(contacts_.last_event()))))
    return std::nullopt;
  JobView view;
  if (mode() == Mode::kProposing) {
    view.generation = modes_.proposal()->generation;
  } else if (generation_.exists()) {
    view.generation = gang().generation;
  }
  switch (mode()) {
    case Mode::kLoading:
    case Mode::kWaiting:
      view.phase = Phase::kWaiting;
      break;
    case Mode::kProposing:
      view.phase = Phase::kProposing;
      break;
    case Mode::kResuming:
    case Mode::kStarting:
      view.phase = Phase::kStarting;
      break;
    case Mode::kUp:
      view.phase = Phase::kUp;
      break;
    case Mode::kBroken:
      view.phase = Phase::kBroken;
      break;
    case Mode::kFinished:
      view.phase = Phase::kFinished;
      break;
    case Mode::kStopping:
      view.phase = Phase::kWaiting;
      break;
    case Mode::kStopped:
      view.phase = Phase::kStopped;
      break;
  }
  view.members.reserve(contacts_.members().size());
  for (const auto& [slot, member] : contacts_.members()) {
    MemberView seen;
    seen.slot = slot;
    seen.incarnation = member.expected.incarnation;
    seen.connected = member.session != 0;
    seen.leaving = member.expected.leaving;
    seen.alive = member.session != 0 && member.generation > 0 &&
                 (member.phase == MemberPhase::kRunning || member.phase == MemberPhase::kReady);
    seen.in_gang = generation_.has(member) && !gang().over;
    seen.up = modes_.active() && generation_.has(member) && gang().is_up(slot) && !gang().exited(slot);
    view.members.push_back(seen);
  }
  if (generation_.exists()) {
    view.world_size = gang().ranks();
    view.places = gang().places();
  }
  if (const Failure* failure = modes_.failure()) view.failure = *failure;
  view.message = waiting_message();
  view.progress = generation_.progress();
  view.newest_checkpoint = keeper_.checkpoint();
  view.times = generation_.times();
  view.divergence = generation_.divergence();
  view.refused = contacts_.turned_away();
  return view;
}

}  // namespace lockstep::rendezvous
