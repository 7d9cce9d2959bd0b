// The model, the samples and the optimizer that the flags ask for.
#pragma once

#include <memory>
#include <string>

#include "operator/base/result.h"
#include "trainer/core/graph.h"
#include "trainer/core/optimizer.h"
#include "trainer/data/text.h"
#include "trainer/flags.h"
#include "trainer/models/model.h"
#include "trainer/torch_form.h"

namespace lockstep::trainer {

struct Task {
  const models::Model* model = nullptr;
  models::Dataset data;
  core::Graph graph;   // of a micro-batch
  StoredForms stored;  // of its tensors, in checkpoints
  core::Optimizer optimizer;
  std::string configuration;  // everything that a checkpoint must agree with besides model, seed and numerics
};

// `flags` are resolved. Errors are those of reading data.
Result<std::unique_ptr<Task>> make_task(const Flags& flags, core::ElementType real);

// The opening that generated text continues, for a model that writes text. kInvalid: the prompt has characters that the
// data lacks.
Result<data::Opening> make_opening(const Flags& flags, const Task& task);

}  // namespace lockstep::trainer
