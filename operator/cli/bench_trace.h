// The steps of a run as a trace that chrome://tracing and Perfetto show. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::cli {

// Makes a JSON document of the Trace Event Format from the lines of a metrics file. A line has the "seconds" of a step
// and its parts "load", "forward", "backward", "wait", "commit". The document has a slice for each step and, below it,
// one for each part in this order. Parts of several micro-batches are added up, so their places within the step are not
// measured. Lines that are no steps are left out. `name` names the process.
std::string chrome_trace(std::string_view metrics, const std::string& name);

}  // namespace lockstep::cli
