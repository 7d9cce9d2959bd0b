// What a process is doing, as it tells its agent four times a second and the agent its coordinator. It is enough to see
// that nothing moves, and whose fault that is (hang_choice.h).
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep::rendezvous {

struct Activity {
  // What the thread that trains is doing.
  enum class Doing { kStarting, kLoading, kForward, kBackward, kWaiting, kCommitting, kSaving, kRegrouping, kOther };
  // Which part of a collective is under way beside it.
  enum class Stage { kIdle, kReduceScatter, kAllGather, kExchange, kBroadcast };

  std::int64_t generation = 0;  // that it takes part in
  Doing doing = Doing::kOther;
  std::int64_t step = 0;      // committed steps
  std::int64_t beats = 0;     // grows with whatever the training thread gets done
  std::int64_t sequence = 0;  // of the collective under way, or of the last one that ended; 0: none has begun
  Stage stage = Stage::kIdle;
  std::int64_t sent = 0, received = 0;  // bytes given to and taken from the links of the generation
  int waits_for_bytes_of = -1;          // rank; -1: of none
  int waits_for_room_at = -1;           // rank that takes none of what is left to send; -1: there is none
  // For how much longer it may wait for its storage without any progress; then it ends by itself. -1: it does not say.
  std::int64_t may_rest_ms = -1;

  bool operator==(const Activity&) const = default;
};

inline constexpr std::int64_t kMostRestMs = 7LL * 24 * 3600 * 1000;  // of Activity::may_rest_ms

// Names for people and for the wire.
const char* name_of(Activity::Doing doing);
const char* name_of(Activity::Stage stage);

// A process as its agent sees it.
struct RankActivity {
  // Of its main thread, as /proc says it: R, S, D, T (stopped), t (by a debugger), Z; '?': not known.
  char state = '?';
  std::int64_t age_ms = 0;       // since it said `said`
  std::optional<Activity> said;  // empty: it tells nothing
  bool operator==(const RankActivity&) const = default;
};

}  // namespace lockstep::rendezvous
