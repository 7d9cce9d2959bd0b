// The faults of `lockstep run --chaos SEED`: kind, victim, order and step. They are a pure function of the seed, their
// number and the number of slots, so a failed run can be repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::cli {

enum class FaultKind {
  kKillWorker,          // SIGKILL for a training process
  kKillPod,             // SIGKILL for an agent, which takes its processes with it
  kEndPod,              // SIGTERM for an agent: a pod that has to leave
  kFreezeWorker,        // SIGSTOP for a training process, and SIGCONT a little later
  kCutCoordinator,      // the connection between an agent and the coordinator ends
  kCutData,             // a connection between two training processes ends
  kRestartCoordinator,  // the controller and its coordinator end, and others begin
};
inline constexpr int kFaultKinds = 7;

struct Fault {
  FaultKind kind = FaultKind::kKillWorker;
  int slot = -1;             // of the victim; -1: the coordinator
  std::uint64_t choice = 0;  // modulo: which of its processes, and of their connections
  double after = 0;          // share of the job's steps that are committed before; never decreases
  // It strikes right after the previous one, in the middle of its recovery, and not after steps of its own.
  bool at_once = false;
  Duration delay{};   // after its step, or after the previous fault if at_once
  Duration frozen{};  // of kFreezeWorker

  bool operator==(const Fault&) const = default;
};

// `faults` of them over all but the first and last steps, for a job of `slots` slots. One in six is at_once.
std::vector<Fault> chaos_schedule(std::uint64_t seed, int faults, int slots);

// "SEED" or "SEED:FAULTS".
struct ChaosWish {
  std::uint64_t seed = 0;
  int faults = 20;

  bool operator==(const ChaosWish&) const = default;
};
// kInvalid with a sentence if the text is neither, or asks for none or more than 5000 faults.
Result<ChaosWish> parse_chaos(const std::string& text);

// "kill a worker", for people.
const char* name_of(FaultKind kind);
// Whether such a fault may cause a restart that is charged to restart.maxRestarts.
bool may_be_charged(FaultKind kind);

}  // namespace lockstep::cli
