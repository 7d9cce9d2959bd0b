#include "trainer/task.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/models/registry.h"
#include "trainer/optim/make_optimizer.h"

namespace lockstep::trainer {

namespace {

data::ImageCacheOptions cache_options(const Flags& flags) {
  return {.memory_bytes = static_cast<std::uint64_t>(flags.cache_memory_mib) << 20,
          .folder = flags.cache_folder,
          .folder_bytes = static_cast<std::uint64_t>(flags.cache_folder_mib) << 20};
}

}  // namespace

Result<std::unique_ptr<Task>> make_task(const Flags& flags, core::ElementType real) {
  auto task = std::make_unique<Task>();
  task->model = models::find_model(flags.model);
  LOCKSTEP_TRY(task->data, task->model->open(flags.model_options, {.paths = flags.data,
                                                                   .real = real,
                                                                   .seed = flags.seed,
                                                                   .held_out = flags.eval_samples,
                                                                   .skip_damage = flags.on_damage == "skip",
                                                                   .threads = flags.data_threads,
                                                                   .prefetch = static_cast<size_t>(flags.prefetch),
                                                                   .cache = cache_options(flags)}));
  task->graph = task->model->graph(flags.model_options, task->data, flags.micro_batch_size);
  task->stored = torch_forms(task->graph, task->model->torch_layer);
  LOCKSTEP_TRY(task->optimizer, optim::make_optimizer(optimizer_options(flags)));
  std::string& text = task->configuration = flags.model_options.describe();
  if (task->data.fingerprint != 0) text += fmt::format(" data={:016x}", task->data.fingerprint);
  if (!text.empty()) text += ' ';
  text += optim::describe(task->optimizer);
  // Batch statistics are of a micro-batch. A run may continue with another global batch and on another backend.
  const bool normalizes = !task->graph.with_role(core::Role::kStatistic).empty();
  if (normalizes) text += fmt::format(" micro-batch-size={}", flags.micro_batch_size);
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
