#include "operator/cli/bench_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

constexpr double kMicroseconds = 1e6;

nlohmann::json slice(const std::string& name, double from, double seconds) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", 0},
          {"tid", 0},
          {"ts", from * kMicroseconds},
          {"dur", seconds * kMicroseconds}};
}

}  // namespace

std::string chrome_trace(std::string_view metrics, const std::string& name) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 0}, {"tid", 0}, {"args", {{"name", name}}}});
  double now = 0;  // seconds since the first step began
  while (!metrics.empty()) {
    const std::string_view line = metrics.substr(0, metrics.find('\n'));
    metrics.remove_prefix(std::min(line.size() + 1, metrics.size()));
    const auto step = nlohmann::json::parse(line, nullptr, false);
    if (!step.is_object() || step.value("kind", nlohmann::json()) != "step") continue;
    const auto seconds_of = [&](const char* part) {
      const auto found = step.find(part);
      return found != step.end() && found->is_number() ? found->get<double>() : 0.0;
    };
    const auto number = step.value("step", nlohmann::json());
    nlohmann::json whole = slice("step " + number.dump(), now, seconds_of("seconds"));
    whole["args"] = {{"loss", step.value("loss", nlohmann::json())}};
    events.push_back(std::move(whole));
    double part_from = now;
    for (const char* part : {"load", "forward", "backward", "wait", "commit"}) {
      events.push_back(slice(part, part_from, seconds_of(part)));
      part_from += seconds_of(part);
    }
    now += seconds_of("seconds");
  }
  return nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump();
}

}  // namespace lockstep::cli
