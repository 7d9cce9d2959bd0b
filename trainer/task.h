// The graph, the samples and the optimizer that the flags ask for.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/core/graph.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/source.h"
#include "trainer/data/text.h"
#include "trainer/flags.h"

namespace lockstep::trainer {

struct Task {
  core::Graph graph;
  std::unique_ptr<core::SampleSource> source;
  std::unique_ptr<core::Optimizer> optimizer;
  std::unique_ptr<data::Text> text;  // null for models that make their own data
  std::int64_t epoch_samples = 0;
  std::string configuration;  // everything that a checkpoint must agree with besides model, seed and numerics
};

// `flags` are resolved. Errors are those of reading data.
Result<std::unique_ptr<Task>> make_task(const Flags& flags, core::ElementType real);

// The opening that generated text continues. kInvalid: the prompt has characters that the data lacks.
Result<data::Opening> make_opening(const Flags& flags, const Task& task);

// The char_transformer of `task` for one sample at a time, to write text with.
core::Graph writing_graph(const Flags& flags, const Task& task);

}  // namespace lockstep::trainer
