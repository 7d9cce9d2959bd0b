#include "tests/bench/placement/gangs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numbers>
#include <random>
#include <sstream>

#include "operator/base/number.h"

namespace lockstep::bench {
namespace {

constexpr double kMedianSeconds = 1800;

// Written out, because the distributions of the standard library differ between libraries.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  // In [0, 1).
  double uniform() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }
  double exponential() { return -std::log1p(-uniform()); }
  double normal() { return std::sqrt(2 * exponential()) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::mt19937_64 random_;
};

int draw_size(Draw& draw, double tail) {
  constexpr int kLargest = 8;
  double all = 0;
  for (int k = 0; k <= kLargest; ++k) all += std::exp2(-tail * k);
  double left = draw.uniform() * all;
  int k = 0;
  while (k < kLargest && left >= std::exp2(-tail * k)) left -= std::exp2(-tail * k++);
  const int size = 1 << k;
  if (draw.uniform() >= 0.3 || size < 4) return size;
  return size / 2 + 1 + static_cast<int>(draw.uniform() * (size / 2));
}

void set_levels(const Site& site, Mode mode, Gang& gang) {
  const int nodes = (gang.pods * gang.gpus + site.gpus - 1) / site.gpus;
  gang.preferred = kRack;
  if (mode == Mode::kPreferred) return;
  if (nodes <= site.nodes) {
    gang.required = kRack;
  } else if (nodes <= site.nodes * site.racks) {
    gang.required = kBlock;
  }
}

void scale_arrivals(const Site& site, double load, std::vector<Gang>& gangs) {
  double work = 0;
  for (const Gang& gang : gangs) work += gang.seconds * gang.pods * gang.gpus;
  const double until = work / (load * site.all_nodes() * site.gpus);
  const double factor = until / std::max(gangs.back().arrival, 1e-9);
  for (Gang& gang : gangs) gang.arrival *= factor;
}

}  // namespace

std::vector<Gang> draw_gangs(const Site& site, const Mix& mix, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<Gang> gangs;
  double now = 0;
  for (int i = 0; i < mix.gangs; ++i) {
    Gang gang;
    now += draw.exponential();
    gang.arrival = now;
    gang.seconds = kMedianSeconds * std::exp(1.4 * draw.normal());
    gang.gpus = site.gpus;
    gang.pods = std::min(draw_size(draw, mix.tail), site.all_nodes() / 2);
    set_levels(site, mix.mode, gang);
    gangs.push_back(gang);
  }
  scale_arrivals(site, mix.load, gangs);
  return gangs;
}

Result<std::vector<Gang>> read_trace(const std::string& path, const Site& site, double load, Mode mode) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kInvalid, fmt::format("{}: cannot be read", path));
  std::vector<Gang> gangs;
  std::vector<std::pair<std::string, double>> steps;  // model and steps, by gang
  std::map<std::string, std::vector<double>> of_model;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::vector<std::string> columns;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) columns.push_back(cell);
    const auto fault = [&](const char* what) {
      return fail(ErrorCode::kInvalid, fmt::format("{}: line {}: {}", path, number, what));
    };
    if (columns.size() != 7) return fault("must have 7 columns separated by tabs");
    double values[3];  // steps, arrival, GPUs
    for (std::size_t i = 0; i < 3; ++i) {
      const auto value = parse_number(columns[4 + i], 0.0, 1e15);
      if (!value) return fault("steps, arrival and GPUs must be numbers from 0 to 1e15");
      values[i] = *value;
    }
    const double gpus = values[2];
    if (gpus < 1 || gpus > site.all_nodes() * site.gpus || gpus != std::floor(gpus)) {
      return fault("GPUs must be a whole number from 1 to the GPUs of the cluster");
    }
    Gang gang;
    gang.arrival = values[1];
    gang.gpus = std::min(site.gpus, static_cast<int>(gpus));
    gang.pods = (static_cast<int>(gpus) + gang.gpus - 1) / gang.gpus;
    set_levels(site, mode, gang);
    gangs.push_back(gang);
    steps.emplace_back(columns[0], values[0]);
    of_model[columns[0]].push_back(values[0]);
  }
  if (gangs.empty()) return fail(ErrorCode::kInvalid, fmt::format("{}: has no jobs", path));
  std::map<std::string, double> median;
  for (auto& [model, all] : of_model) {
    std::sort(all.begin(), all.end());
    median[model] = std::max(all[all.size() / 2], 1.0);
  }
  for (std::size_t i = 0; i < gangs.size(); ++i) {
    gangs[i].seconds = std::max(1.0, kMedianSeconds * steps[i].second / median[steps[i].first]);
  }
  std::stable_sort(gangs.begin(), gangs.end(), [](const Gang& a, const Gang& b) { return a.arrival < b.arrival; });
  scale_arrivals(site, load, gangs);
  return gangs;
}

}  // namespace lockstep::bench
