// The results of packing_bench as tables in the terminal and as JSON.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/bench/placement/experiments.h"

namespace lockstep::bench {

class Report {
 public:
  Report(const Plan& plan, std::vector<std::string> policies);

  // Each prints its table.
  void packing(const std::map<std::string, Outcomes>& found);
  void waiting(const std::map<std::string, Outcomes>& found);
  void replacement(double load, const std::map<std::string, Outcomes>& found);
  // Of all rings of the experiments before.
  void rings() const;

  // Whether no order of ranks crossed more often than the least.
  bool rings_are_ideal() const;
  const nlohmann::json& json() const { return json_; }

 private:
  struct Rings {
    Crossings ranks, by_name, by_slot, least;
    std::int64_t count = 0, above_least = 0;
  };
  struct Column {
    const char* title;
    const char* key;  // in the JSON
    double unit;
    int digits;
    double (*value)(const Outcome&);
  };

  void table(const char* experiment, const std::vector<Column>& columns, const std::map<std::string, Outcomes>& found);
  // Lockstep's value ÷ the best peer's, by seed; what the goal is.
  void compare(const char* experiment, const Column& column, double goal, const std::map<std::string, Outcomes>& found);
  void add_rings(const std::map<std::string, Outcomes>& found);

  std::vector<std::string> policies_;
  Rings rings_;
  nlohmann::json json_;
};

}  // namespace lockstep::bench
