#include "trainer/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep::trainer::report {

std::string format_seconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) return "?";
  const auto whole = std::llround(seconds);
  const auto hours = whole / 3600;
  const auto minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string format_progress(const ProgressLine& line) {
  std::string text = fmt::format("step {}", line.step);
  if (line.total_steps > 0) text += fmt::format("/{}", line.total_steps);
  text += fmt::format("  epoch {}  loss {:.4f}", line.epoch, line.loss);
  if (line.samples_per_second > 0) {
    text += fmt::format("  {:.{}f} samples/s", line.samples_per_second, line.samples_per_second < 100 ? 1 : 0);
  }
  if (line.eta_seconds > 0) text += "  eta " + format_seconds(line.eta_seconds);
  return text;
}

std::string format_flops(double flops) {
  size_t unit = 0;
  constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  for (; flops >= 999.5 && unit + 1 < kUnits.size(); ++unit) flops /= 1000;
  return fmt::format("{:.3g} {}FLOP", flops, kUnits[unit]);
}

std::string format_benchmark_line(std::int64_t step, const SpeedStatistics& speed, double loss) {
  return fmt::format("{}\timages/sec: {:.1f} +/- {:.1f} (jitter = {:.1f})\t{:.3f}", step, speed.mean,
                     speed.standard_error, speed.jitter, loss);
}

std::string format_benchmark_total(double mean) {
  const std::string dashes(64, '-');
  return fmt::format("{}\ntotal images/sec: {:.2f}\n{}", dashes, mean, dashes);
}

std::string format_record(const Record& record) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, value] : record) {
    std::visit([&object, &name = key](const auto& it) { object[name] = it; }, value);
  }
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string format_result(const Record& record) {
  return "result " + format_record(record);
}

Result<std::unique_ptr<MetricsFile>> MetricsFile::open(const std::string& path) {
  LOCKSTEP_TRY(auto file, LineFile::open("the metrics file", path));
  return std::unique_ptr<MetricsFile>(new MetricsFile(std::move(file)));
}

Status MetricsFile::write(const Record& record) {
  return file_->write(format_record(record));
}

Status MetricsFile::write_step(const ProgressLine& line, double seconds, const StepParts& parts) {
  return write({{"kind", "step"},
                {"step", line.step},
                {"epoch", line.epoch},
                {"loss", line.loss},
                {"samples_per_second", line.samples_per_second},
                {"seconds", seconds},
                {"load", parts.load},
                {"forward", parts.forward},
                {"backward", parts.backward},
                {"wait", parts.wait},
                {"commit", parts.commit}});
}

}  // namespace lockstep::trainer::report
