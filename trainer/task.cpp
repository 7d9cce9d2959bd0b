#include "trainer/task.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/data/generated.h"
#include "trainer/data/text_source.h"
#include "trainer/models/char_transformer.h"
#include "trainer/models/linear_regression.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/adamw.h"
#include "trainer/optim/sgd.h"

namespace lockstep::trainer {

namespace {

models::CharTransformerOptions transformer_options(const Flags& flags, const Task& task, std::int64_t batch) {
  return {.batch = batch,
          .vocabulary = static_cast<std::int64_t>(task.text->vocabulary.size()),
          .context = flags.context,
          .layers = flags.layers,
          .width = flags.width,
          .heads = flags.heads,
          .dropout = flags.dropout};
}

Status make_transformer(const Flags& flags, Task& task) {
  LOCKSTEP_TRY(auto text, data::read_text(flags.data));
  task.text = std::make_unique<data::Text>(std::move(text));
  LOCKSTEP_TRY(auto source, data::TextSource::create(*task.text, flags.context, flags.seed, flags.eval_samples));
  task.epoch_samples = source.windows();
  task.source = std::make_unique<data::TextSource>(source);
  task.graph = models::char_transformer(transformer_options(flags, task, flags.micro_batch_size));
  task.configuration = fmt::format("layers={} width={} heads={} context={} dropout={} data={:016x}", flags.layers,
                                   flags.width, flags.heads, flags.context, flags.dropout, task.text->fingerprint);
  return {};
}

}  // namespace

Result<std::unique_ptr<Task>> make_task(const Flags& flags, core::ElementType real) {
  auto task = std::make_unique<Task>();
  if (flags.model == "char-transformer") {
    LOCKSTEP_CHECK_OK(make_transformer(flags, *task));
  } else if (flags.model == "linear-regression") {
    task->source = std::make_unique<data::LineSource>(real, flags.seed);
    task->epoch_samples = data::LineSource::kTraining;
    task->graph = models::linear_regression(flags.micro_batch_size);
  } else {
    task->source = std::make_unique<data::BlobSource>(real, flags.seed);
    task->epoch_samples = data::BlobSource::kTraining;
    task->graph = models::mlp({.batch = flags.micro_batch_size,
                               .features = data::BlobSource::kFeatures,
                               .width = flags.width,
                               .layers = flags.layers,
                               .classes = data::BlobSource::kClasses,
                               .dropout = flags.dropout});
    task->configuration = fmt::format("layers={} width={} dropout={}", flags.layers, flags.width, flags.dropout);
  }
  optim::Schedule schedule{.peak = flags.learning_rate, .warmup_steps = flags.warmup_steps, .total_steps = flags.steps};
  if (flags.optimizer == "adamw") {
    task->optimizer =
        std::make_unique<optim::AdamW>(optim::AdamWOptions{.schedule = schedule, .weight_decay = *flags.weight_decay});
  } else {
    task->optimizer = std::make_unique<optim::Sgd>(
        optim::SgdOptions{.schedule = schedule, .momentum = *flags.momentum, .weight_decay = *flags.weight_decay});
  }
  if (!task->configuration.empty()) task->configuration += ' ';
  task->configuration +=
      fmt::format("{} batch-size={} backend={}", task->optimizer->describe(), flags.batch_size, flags.backend);
  return task;
}

Result<data::Opening> make_opening(const Flags& flags, const Task& task) {
  if (flags.prompt.empty()) {
    return data::start_of_a_sentence(*task.text, static_cast<size_t>(flags.context), flags.seed);
  }
  auto tokens = data::to_tokens(*task.text, flags.prompt);
  if (!tokens) return tokens.error().in("--prompt");
  return data::Opening{.tokens = *tokens, .shown = tokens->size()};
}

core::Graph writing_graph(const Flags& flags, const Task& task) {
  return models::char_transformer(transformer_options(flags, task, 1));
}

}  // namespace lockstep::trainer
