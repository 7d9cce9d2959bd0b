// Which state of a job may follow which. docs/design.md draws this table, and tests/structure compares the two. The
// World (world.h) reports every other transition, and decide_states_test.cpp takes each of these.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace lockstep::job {

struct Transition {
  std::string_view from, to;  // status.state; "": before the first status

  bool operator==(const Transition&) const = default;
};

inline constexpr Transition kTransitions[] = {
    {"", "Pending"},           {"", "Suspended"},

    {"Pending", "Starting"},   {"Pending", "Running"},      {"Pending", "Restarting"},   {"Starting", "Pending"},
    {"Starting", "Running"},   {"Starting", "Restarting"},  {"Running", "Restarting"},   {"Restarting", "Running"},

    {"Pending", "Suspended"},  {"Pending", "Succeeded"},    {"Pending", "Failed"},       {"Starting", "Suspended"},
    {"Starting", "Succeeded"}, {"Starting", "Failed"},      {"Running", "Suspended"},    {"Running", "Succeeded"},
    {"Running", "Failed"},     {"Restarting", "Suspended"}, {"Restarting", "Succeeded"}, {"Restarting", "Failed"},

    {"Suspended", "Pending"},
};

constexpr bool may_follow(std::string_view from, std::string_view to) {
  return from == to ||
         std::find(std::begin(kTransitions), std::end(kTransitions), Transition{from, to}) != std::end(kTransitions);
}

}  // namespace lockstep::job
