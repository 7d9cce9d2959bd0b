// `lockstep data`: the program lockstep-data, which stands beside this one and has the libraries for images.
#pragma once

#include <string>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::cli {

// The path of that program. kUnavailable: the folder of this one is unknown.
Result<std::string> data_program();

// Becomes that program, with these words as its arguments. Returns only if it cannot be started: 127, after one
// sentence on standard error.
int run_data_program(const std::vector<std::string>& words);

// Its commands and options, for completion.
std::vector<std::string> data_words();
std::vector<std::string> data_options();

}  // namespace lockstep::cli
