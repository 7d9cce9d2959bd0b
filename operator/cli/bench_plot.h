// The scaling of `lockstep bench train` as a picture. Pure.
#pragma once

#include <string>
#include <vector>

#include "operator/cli/bench_result.h"

namespace lockstep::cli {

// A whole SVG document, 720 x 360: scaling efficiency over the number of workers, a line for each model with its data;
// the error bars are those of the speed. Rows without efficiency are left out.
std::string scaling_svg(const std::vector<BenchRow>& rows);

}  // namespace lockstep::cli
