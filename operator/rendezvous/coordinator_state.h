// The coordinator's side of the protocol for one job, as a pure state machine: events and the time go in, actions come
// out. It has no socket, no store, no clock and no thread; coordinator_server.cpp carries the actions out.
//
// It is level-triggered: an event updates what is known; where that is news, and with each tick, evaluate() looks at
// all of it and acts. A heartbeat without news looks at its own member only, whatever the gang's size.
//
// Its parts own what it knows: Contacts the members, RecordKeeper the record and the term, Generation the gang, Modes
// where the job stands. This class passes events on to them and decides what follows from several of them together.
//
// What it holds to (README.md has the whole story):
//   * GO is sent only after the compare-and-set of exactly that generation and those members succeeded;
//   * a number is never used twice, whatever became of the proposal that bore it;
//   * GO waits until nothing of the generation before can be committed. Every member has said READY or is no longer
//     expected, or, of our own trainer, one of them has said READY;
//   * a loss of contact is a loss only while nothing advances. It is none in the first seconds of a term, or when this
//     side was the late one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/clock.h"
#include "operator/rendezvous/contacts.h"
#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/coordinator_actions.h"
#include "operator/rendezvous/coordinator_modes.h"
#include "operator/rendezvous/coordinator_timing.h"
#include "operator/rendezvous/edge_watch.h"
#include "operator/rendezvous/gang.h"
#include "operator/rendezvous/generation.h"
#include "operator/rendezvous/hang_choice.h"
#include "operator/rendezvous/identity_choice.h"
#include "operator/rendezvous/protocol.h"
#include "operator/rendezvous/record_keeper.h"
#include "operator/rendezvous/roster.h"
#include "operator/rendezvous/source_choice.h"

namespace lockstep::rendezvous {

// One owner, one thread.
class CoordinatorState {
 public:
  // `make_key` gives 64 hexadecimal digits, fresh each time. `term` is the leader's; the job's may be higher.
  CoordinatorState(std::int64_t term, CoordinatorTiming timing, std::function<std::string()> make_key, Now now);

  void on_plan(const JobPlan& plan, Now now);
  // A HELLO whose token is good.
  void on_hello(SessionId session, const Hello& hello, Now now);
  // A HELLO that claims to be `hello`, and nobody could say whether it is: a sign of life, no more.
  void on_sign_of_life(const Hello& hello, Now now);
  // HELLOs of which it is still being asked whether they are what they claim to be: nobody is lost meanwhile.
  void on_token_pending(const std::vector<Hello>& hellos, Now now);
  // One that was turned away outside (bad token); for the view.
  void on_turned_away(const std::string& why);
  void on_message(SessionId session, const AgentToCoordinator& message, Now now);
  void on_disconnected(SessionId session, Now now);
  void on_loaded(const Result<GenerationStore::Versioned>& loaded, Now now);
  void on_written(const Result<std::string>& version, Now now);
  void on_tick(Now now);

  // When on_tick() is next of use: never later than `tick` after it last looked at everything.
  MonotonicTime deadline() const;
  std::vector<CoordinatorAction> take_actions() { return std::exchange(actions_, {}); }

  // Empty until it is known how the job stands. By then the record was read, and members of a running generation had
  // time to report after a take-over.
  std::optional<JobView> view() const;
  const Progress& progress() const { return generation_.progress(); }
  // Whether view() may have changed in more than its progress, or in its progress, since the last call.
  bool take_changed() { return std::exchange(changed_, false); }
  bool take_progress_changed() { return std::exchange(progress_changed_, false); }
  // For how long nobody called when somebody should have, where that was so long that silence was forgiven; zero when
  // it was not since the last call.
  Duration take_held_up() { return contacts_.take_held_up(); }
  // Why a HELLO would not be let in, empty when it would: {message, final}.
  std::optional<Refused> refusal(const Hello& hello) const;
  std::int64_t ignored() const { return ignored_; }
  // The newest transition between modes that is not to be; empty: there was none.
  const std::optional<Modes::Illegal>& illegal() const { return modes_.illegal(); }
  // How often it looked at all members.
  std::int64_t evaluations() const { return evaluations_; }

 private:
  friend struct Contents;  // tests: a fingerprint of all that it holds

  void observe(Now now);
  void evaluate(Now now);
  // Moves the job above a term of another coordinator, where this process leads; else this coordinator is deposed.
  void evaluate_term(Now now);
  void evaluate_mode(Now now);
  void resume_stopped();
  void tell_members(Now now);
  void evaluate_stop(Now now);
  void evaluate_resume(Now now);
  void evaluate_waiting(Now now);
  void evaluate_broken(Now now);
  void evaluate_proposal(Now now);
  void evaluate_exits(Now now);
  void evaluate_losses(Now now);
  void evaluate_hang(Now now);
  void evaluate_up(Now now);
  bool has_come_up(int slot) const;
  // Of a generation that is not up at the deadline.
  Failure missed_start(Now now) const;
  void evaluate_growth(Now now);
  void evaluate_renounced(Now now);
  void evaluate_store(Now now);
  // Of a job that stops to go on later: the newest checkpoint is not in the record yet.
  bool checkpoint_awaited() const;
  void acknowledge_exits();
  // The members that are there are too few for any generation.
  bool too_few() const;

  void greet(Member& member, const Hello& hello, Now now);
  // Each says whether that is news: something follows from it that evaluate() has to find before the next tick.
  bool on(Member& member, const Heartbeat& heartbeat, Now now);
  bool on(Member& member, const Ready& ready, Now now);
  bool on(Member& member, const Up& up, Now now);
  bool on(Member& member, const Broken& broken, Now now);
  bool on(Member& member, const Exit& exit, Now now);
  bool on(Member& member, const Echoed& echoed, Now now);
  template <typename Message>
  bool on(Member&, const Message&, Now) {  // an agent's first message, or of an unknown type
    ++ignored_;
    return false;
  }
  bool news_of_up() const;
  bool note_progress(Member& member, const Progress& progress, Now now);
  void note_activities(Member& member, const Heartbeat& heartbeat, Now now);
  void note_rest(int slot, const Heartbeat& heartbeat, Now now);
  bool note_checkpoint(const std::optional<CheckpointReport>& checkpoint);

  std::vector<int> next_gang(Now now) const;
  std::vector<int> may_form(std::vector<int> slots, Now now) const;
  bool proposes(const std::vector<int>& slots) const;
  void propose(const std::vector<int>& slots, Now now);
  std::vector<Place> in_order_of_rank(const std::vector<int>& slots) const;
  void record_proposal(Now now);
  void discard_proposal();
  void send_propose(const Member& member);
  Gang proposed_gang() const;
  Go go_for(const Roster& roster) const;
  void warm(Member& member, bool first, Now now);
  // Whether the first generation, of `slots`, has to wait for their processes to be warm; tells them to be.
  bool awaits_warm(const std::vector<int>& slots, Now now);
  bool awaited(Member& member, Now now) const;
  void go(Now now);
  std::vector<HeldState> held_states() const;  // by rank
  void break_connection(Now now);
  void break_links(Failure failure, const std::vector<EdgeWatch::Report>& reports);
  // Whether the others may end a step for this newcomer; asks it where that is not known.
  bool reaches_gang(Member& member, Now now);
  // It said that it does not reach the others, and is not one of them.
  bool unreaching(const Member& member) const;
  void give_up_proposal(int slot, api::Cause cause, std::string message, Now now);
  // Whether ranks of `roster` differ in what all must have in common (identity_choice.h).
  std::optional<IdentityDifference> difference_in(const Roster& roster) const;
  std::string in_words(const IdentityDifference& difference) const;
  // In what a member that is not of the gang differs from it; it is not taken in.
  std::optional<IdentityDifference> differs_from_gang(const Member& member) const;
  void evaluate_identities(Now now);
  void adopt_gang();
  void adopt_record(Now now);
  void end_gang();
  void break_gang(Failure failure);
  void lose_member(int slot, const std::string& how, MonotonicTime since, Now now);
  void write(Record next);
  template <typename State>
  void enter(State next) {
    if (modes_.enter(std::move(next))) changed_ = true;
  }

  Mode mode() const { return modes_.now(); }
  Gang& gang() { return generation_.gang(); }  // the newest, where there is one
  const Gang& gang() const { return generation_.gang(); }
  bool elastic() const { return plan_->elastic.min_slots > 0 && plan_->elastic.min_slots < plan_->slots; }
  std::size_t gang_size() const { return static_cast<std::size_t>(plan_->slots); }
  // The expected slots whose agents are connected, not silent, not to leave, and not evicted.
  std::vector<int> present(Now now) const;
  // The slots of these that a generation can start with at once: their processes hold a state, or are warm.
  std::vector<int> quick(const std::vector<int>& slots) const;
  // Of those the ones that a generation would be made of.
  std::vector<int> choose(const std::vector<int>& slots) const;
  // Whether a member of the generation in force, or of the last one, that is expected to stay is not one of `slots`.
  bool leaves_out(const std::vector<int>& slots) const;
  // Nobody has joined for as long as an elastic gang waits for more.
  bool stable(Now now) const;
  // What is known of the ranks whose processes are there; empty: not of all of them, or of some not lately.
  std::vector<WatchedRank> watched_ranks(Now now) const;
  void end_hung(const HangChoice& choice, Now now);
  void send(SessionId session, CoordinatorToAgent message);
  void close(SessionId session) { actions_.push_back(CloseSession{session}); }
  std::string waiting_message() const;

  const CoordinatorTiming timing_;
  const std::function<std::string()> make_key_;
  std::vector<CoordinatorAction> actions_;

  std::optional<JobPlan> plan_;
  Contacts contacts_;
  RecordKeeper keeper_;
  Generation generation_;
  Modes modes_;

  MonotonicTime evaluated_at_{};
  MonotonicTime loss_due_ = MonotonicTime::max();  // when the next member is lost without another heartbeat
  std::int64_t evaluations_ = 0;
  bool changed_ = true, progress_changed_ = false;
  std::int64_t ignored_ = 0;
};

}  // namespace lockstep::rendezvous
