// How a running job is shown: one line redrawn in place on a terminal, plain lines elsewhere, JSON lines for tools.
// Messages scroll above the redrawn line.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "operator/base/clock.h"

namespace lockstep::cli {

// The contents of the line.
struct DisplayedState {
  std::string state;  // of the job, one word
  std::string note;   // why it waits; shown before the first progress
  std::string ready;  // "3/4"
  std::int64_t step = 0, total_steps = 0;
  double loss = 0, samples_per_second = 0, eta_seconds = 0;
  int restarts = 0;
  double elapsed_seconds = 0;

  bool operator==(const DisplayedState&) const = default;
};

enum class DisplayMode { kTerminal, kLines, kJson, kQuiet };

// One owner, one thread.
class Display {
 public:
  virtual ~Display() = default;
  // Shows the state; draws only what changed, and lines at most every `every` but for changes of the state.
  virtual void update(const DisplayedState& now) = 0;
  // A sentence for the user: kept on the screen. Not in kJson and kQuiet.
  virtual void say(const std::string& sentence) = 0;
  // A line of a pod's log, as it was printed; shown in every mode but kJson.
  virtual void log_line(const std::string& line) = 0;
  // Removes the redrawn line; later output starts on a fresh one. Idempotent.
  virtual void finish() = 0;
};

// `out` outlives it. `every`: between two progress lines in kLines and kJson.
std::unique_ptr<Display> make_display(DisplayMode mode, std::FILE* out, Clock& clock,
                                      Duration every = std::chrono::seconds(5));

// The redrawn line for a terminal of that width; `utf8` allows block characters for the bar. Pure.
std::string progress_line(const DisplayedState& now, int columns, bool utf8);
// The line for a file: "Running  step 120/1000 (12%)  loss 2.3456  1234 samples/s  eta 0:42  restarts 1". Pure.
std::string plain_line(const DisplayedState& now);

// Whether the user's locale is UTF-8 (LC_ALL, LC_CTYPE, LANG).
bool locale_is_utf8();
// Columns of the terminal behind `out`; 80 if unknown.
int terminal_columns(std::FILE* out);

}  // namespace lockstep::cli
