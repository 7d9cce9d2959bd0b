// What `lockstep plan` and `lockstep explain` show of a verdict of placement. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/placement/shortage.h"

namespace lockstep::cli {

// Where the pods of a gang that fits go: a sentence and a line per node, at most `most` lines.
std::string assignment_in_words(const placement::Tree& tree, const placement::Verdict& verdict, std::size_t most = 40);

// Why a gang does not fit: the sentence, the holes of each level, why nodes take no pod, and what would help.
std::string refusal_in_words(const placement::Tree& tree, const placement::Verdict& verdict);

// Both for programs.
nlohmann::json verdict_json(const placement::Tree& tree, const placement::Verdict& verdict);

}  // namespace lockstep::cli
