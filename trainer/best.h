// The best evaluation of a run so far, by the held-out loss: --keep-best and --early-stop-evaluations follow it. It
// belongs to the state: it is stored in checkpoints, and a rank that receives a state receives it too.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::trainer {

struct Best {
  std::int64_t step = -1;    // of the best evaluation; -1: there is none
  double loss = 0;           // its held-out loss
  std::int64_t counted = 0;  // step of the last evaluation that counts
  std::int64_t misses = 0;   // evaluations since the best one that were not better

  // An evaluation after `at` committed steps found `held_out_loss`. One that is counted already, because ranks repeat
  // it after a failure, and one of the state before the first step do not count. A loss that is not finite is no
  // better.
  void count(std::int64_t at, double held_out_loss);

  bool operator==(const Best&) const = default;
};

// As a JSON object.
std::string to_text(const Best& best);
// Accepts any text; one that is no such object is the best of a run without evaluations.
Best best_from(const std::string& text);

}  // namespace lockstep::trainer
