#include "operator/cli/bench_display.h"

#include <unistd.h>

#include "operator/cli/rank_logs.h"

namespace lockstep::cli {
namespace {

class BenchDisplay final : public Display {
 public:
  BenchDisplay(DisplayMode mode, std::FILE* out, Clock& clock)
      : speaks_(mode != DisplayMode::kQuiet),
        redraws_(mode == DisplayMode::kTerminal),
        inner_(make_display(mode, out, clock)) {}

  void update(const DisplayedState& now) override {
    if (redraws_) inner_->update(now);  // else rank 0's lines are progress enough
  }
  void say(const std::string& sentence) override { inner_->say(sentence); }
  void log_line(const std::string& line) override {
    if (const auto text = contract_line(line); text && speaks_) inner_->log_line(*text);
  }
  void finish() override { inner_->finish(); }

 private:
  const bool speaks_, redraws_;
  const std::unique_ptr<Display> inner_;
};

}  // namespace

std::optional<std::string> contract_line(std::string_view tagged) {
  const auto line = parse_tagged(tagged);
  if (!line || line->rank != 0) return std::nullopt;
  const bool speed = line->text.find("\timages/sec: ") != std::string_view::npos;
  const bool total = line->text.starts_with("total images/sec: ") || line->text == std::string(64, '-');
  if (!speed && !total) return std::nullopt;
  return std::string(line->text);
}

std::unique_ptr<Display> make_bench_display(std::FILE* out, Clock& clock) {
  const DisplayMode mode = out == nullptr             ? DisplayMode::kQuiet
                           : isatty(fileno(out)) != 0 ? DisplayMode::kTerminal
                                                      : DisplayMode::kLines;
  return std::make_unique<BenchDisplay>(mode, out == nullptr ? stdout : out, clock);
}

}  // namespace lockstep::cli
