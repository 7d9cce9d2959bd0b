// The table of bounds: what the models' training steps can reach at most on each GPU.
#pragma once

#include <string>

namespace lockstep::trainer::testing {

// table.txt.
std::string roofline_table();

}  // namespace lockstep::trainer::testing
