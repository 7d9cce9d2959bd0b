#include "operator/cli/display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "operator/cli/text.h"

namespace lockstep::cli {
namespace {

// A number with as many digits as help: "1234", "12.3", "0.123".
std::string rate(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

std::string counts(const DisplayedState& now) {
  std::string text;
  if (now.step > 0 || now.total_steps > 0) {
    text =
        now.total_steps > 0 ? fmt::format("step {}/{}", now.step, now.total_steps) : fmt::format("step {}", now.step);
  }
  if (now.step > 0) {
    text += fmt::format("  loss {:.4f}  {} samples/s", now.loss, rate(now.samples_per_second));
    if (now.eta_seconds > 0) text += "  eta " + clock_time(now.eta_seconds);
  }
  return text;
}

class TerminalDisplay final : public Display {
 public:
  TerminalDisplay(std::FILE* out) : out_(out), utf8_(locale_is_utf8()) {}
  ~TerminalDisplay() override { finish(); }

  void update(const DisplayedState& now) override {
    now_ = now;
    draw();
  }
  void say(const std::string& sentence) override {
    erase();
    fmt::print(out_, "{}\n", sentence);
    draw();
  }
  void log_line(const std::string& line) override { say(line); }
  void finish() override {
    erase();
    now_.reset();
    fflush(out_);
  }

 private:
  void erase() {
    if (drawn_.empty()) return;
    fmt::print(out_, "\r\x1b[K");
    drawn_.clear();
  }
  void draw() {
    if (!now_) return;
    const std::string line = progress_line(*now_, terminal_columns(out_), utf8_);
    if (line == drawn_) return;
    fmt::print(out_, "\r\x1b[K{}", line);
    fflush(out_);
    drawn_ = line;
  }

  std::FILE* out_;
  const bool utf8_;
  std::optional<DisplayedState> now_;
  std::string drawn_;
};

class LineDisplay final : public Display {
 public:
  LineDisplay(DisplayMode mode, std::FILE* out, Clock& clock, Duration every)
      : mode_(mode), out_(out), clock_(clock), every_(every) {}

  void update(const DisplayedState& now) override {
    if (mode_ == DisplayMode::kQuiet) return;
    const bool news = !last_ || last_->state != now.state || last_->restarts != now.restarts;
    const bool moved = last_ && (last_->step != now.step || (now.step == 0 && last_->note != now.note));
    if (!news && !(moved && clock_.now() - last_time_ >= every_)) return;
    last_ = now;
    last_time_ = clock_.now();
    if (mode_ == DisplayMode::kJson) {
      const nlohmann::json line = {{"state", now.state},
                                   {"ready", now.ready},
                                   {"step", now.step},
                                   {"totalSteps", now.total_steps},
                                   {"loss", now.loss},
                                   {"samplesPerSecond", now.samples_per_second},
                                   {"etaSeconds", now.eta_seconds},
                                   {"restarts", now.restarts},
                                   {"elapsedSeconds", now.elapsed_seconds}};
      fmt::print(out_, "{}\n", line.dump());
    } else {
      fmt::print(out_, "{}\n", plain_line(now));
    }
    fflush(out_);
  }
  void say(const std::string& sentence) override {
    if (mode_ == DisplayMode::kLines) write(sentence);
  }
  void log_line(const std::string& line) override {
    if (mode_ != DisplayMode::kJson) write(line);
  }
  void finish() override { fflush(out_); }

 private:
  void write(const std::string& line) {
    fmt::print(out_, "{}\n", line);
    fflush(out_);
  }

  const DisplayMode mode_;
  std::FILE* out_;
  Clock& clock_;
  const Duration every_;
  std::optional<DisplayedState> last_;
  MonotonicTime last_time_{};
};

}  // namespace

std::string plain_line(const DisplayedState& now) {
  std::string text = fmt::format("{:<10}", now.state);
  const std::string done = counts(now);
  if (!done.empty()) {
    text += "  " + done;
  } else if (!now.note.empty()) {
    text += "  " + now.note;
  } else if (!now.ready.empty()) {
    text += "  " + now.ready + " ready";
  }
  if (now.restarts > 0) text += fmt::format("  restarts {}", now.restarts);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string progress_line(const DisplayedState& now, int columns, bool utf8) {
  constexpr int kBar = 20;
  std::string line = fmt::format("{} {}", clock_time(now.elapsed_seconds), now.state);
  if (now.total_steps > 0) {
    const double share = std::clamp(static_cast<double>(now.step) / static_cast<double>(now.total_steps), 0.0, 1.0);
    const int full = static_cast<int>(share * kBar);
    std::string bar;
    for (int i = 0; i < kBar; ++i) bar += i < full ? (utf8 ? "█" : "#") : (utf8 ? "░" : "-");
    line += fmt::format("  {} {:3.0f}%", bar, share * 100);
  }
  const std::string done = counts(now);
  line += "  " + (!done.empty() ? done : !now.note.empty() ? now.note : now.ready.empty() ? "" : now.ready + " ready");
  if (now.restarts > 0) line += fmt::format("  restarts {}", now.restarts);
  line.erase(line.find_last_not_of(' ') + 1);
  // Cut to the width in characters: a wrapped line could not be redrawn.
  int shown = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80 && ++shown >= std::max(columns, 2))
      return line.substr(0, i);
  }
  return line;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string text = value;
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

int terminal_columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::unique_ptr<Display> make_display(DisplayMode mode, std::FILE* out, Clock& clock, Duration every) {
  if (mode == DisplayMode::kTerminal) return std::make_unique<TerminalDisplay>(out);
  return std::make_unique<LineDisplay>(mode, out, clock, every);
}

}  // namespace lockstep::cli
