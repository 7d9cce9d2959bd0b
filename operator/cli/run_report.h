// What a finished run tells: the loss curve, a sample of text, the table of attempts and where everything is. Pure but
// for reading the metrics file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/cli/loss_curve.h"

namespace lockstep::cli {

// Points of a file of JSON lines {"kind":"step","step":..,"loss":..}; lines that are something else are
// skipped. Empty when there is no file.
void read_metrics(const std::string& path, LossCurve& curve);

// The table of attempts; "" when there are none.
std::string attempts_table(const std::vector<api::Attempt>& attempts);

// Milliseconds from the failure to the first new step, as far as they are known; -1 when nothing is.
std::int64_t recovery_ms(const api::Attempt& attempt);

// "language-model succeeded after 1:42 with 1 restart" or "... failed: <message>", one sentence.
std::string verdict(const api::TrainingJob& job, double seconds);

// 0 when it succeeded, else the exit code of the last attempt that has one other than 0, else 1.
int exit_status(const api::TrainingJobStatus& status);

}  // namespace lockstep::cli
