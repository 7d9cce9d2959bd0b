#include "trainer/task.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/models/registry.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/sgd.h"

namespace lockstep::trainer {

namespace {

std::unique_ptr<core::Optimizer> make_optimizer(const Flags& flags) {
  optim::Schedule schedule{.peak = flags.learning_rate, .warmup_steps = flags.warmup_steps, .total_steps = flags.steps};
  if (flags.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(
        optim::AdamWOptions{.schedule = schedule, .weight_decay = *flags.weight_decay});
  }
  return std::make_unique<optim::Sgd>(
      optim::SgdOptions{.schedule = schedule, .momentum = *flags.momentum, .weight_decay = *flags.weight_decay});
}

}  // namespace

Result<std::unique_ptr<Task>> make_task(const Flags& flags, core::ElementType real) {
  auto task = std::make_unique<Task>();
  task->model = models::find_model(flags.model);
  LOCKSTEP_TRY(
      task->data,
      task->model->open(flags.model_options,
                        {.paths = flags.data, .real = real, .seed = flags.seed, .held_out = flags.eval_samples}));
  task->graph = task->model->graph(flags.model_options, task->data, flags.micro_batch_size);
  task->optimizer = make_optimizer(flags);
  std::string& text = task->configuration = flags.model_options.describe();
  if (task->data.text) text += fmt::format(" data={:016x}", task->data.text->fingerprint);
  if (!text.empty()) text += ' ';
  text += fmt::format("{} batch-size={} backend={}", task->optimizer->describe(), flags.batch_size, flags.backend);
  return task;
}

Result<data::Opening> make_opening(const Flags& flags, const Task& task) {
  if (flags.prompt.empty()) {
    return data::start_of_a_sentence(*task.data.text, static_cast<size_t>(task.data.context), flags.seed);
  }
  auto tokens = data::to_tokens(*task.data.text, flags.prompt);
  if (!tokens) return tokens.error().in("--prompt");
  return data::Opening{.tokens = *tokens, .shown = tokens->size()};
}

}  // namespace lockstep::trainer
