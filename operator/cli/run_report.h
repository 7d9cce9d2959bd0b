// The report of a finished run: the loss curve, a sample of text, the table of attempts and the paths of its files.
// Pure but for reading the metrics file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/training_job.h"
#include "operator/cli/loss_curve.h"

namespace lockstep::cli {

// Points of a file of JSON lines {"kind":"step","step":..,"loss":..}; other lines are skipped. Empty if there is no
// file.
void read_metrics(const std::string& path, LossCurve& curve);

// The table of attempts; "" if there are none.
std::string attempts_table(const std::vector<api::Attempt>& attempts);

// Milliseconds from the failure to the first new step, as far as known; -1: unknown.
std::int64_t recovery_ms(const api::Attempt& attempt);

// "language-model succeeded after 1:42 with 1 restart" or "... failed: <message>", one sentence.
std::string verdict(const api::TrainingJob& job, double seconds);

// 0 if it succeeded, else the exit code of the last attempt that has one other than 0, else 1.
int exit_status(const api::TrainingJobStatus& status);

}  // namespace lockstep::cli
