// What rank 0 prints besides progress: the configuration, the sample, the result.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <vector>

#include "trainer/models/generate.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/print.h"
#include "trainer/training.h"

namespace lockstep::trainer {

void Training::print_configuration() const {
  auto row = [](const char* name, const std::string& value) { print(stdout, "  {:<16}{}\n", name, value); };
  size_t parameters = 0;
  for (const core::Segment& segment : replica_->layout().segments) parameters += segment.count;
  print(stdout, "configuration\n");
  row("model", fmt::format("{}, {} parameters", flags_.model, parameters));
  if (const data::Text* text = task_->data.text.get()) {
    row("data", fmt::format("{} files, {} characters to learn, {} held out, vocabulary {}", text->files.size(),
                            text->training.size(), text->held_out.size(), text->vocabulary.size()));
  }
  row("batch", fmt::format("{} samples in micro-batches of {}, {} samples in an epoch", flags_.batch_size,
                           flags_.micro_batch_size, task_->data.epoch_samples));
  row("optimizer", fmt::format("{} learning-rate={} warmup-steps={} clip-norm={}", optim::describe(task_->optimizer),
                               flags_.learning_rate, flags_.warmup_steps, *flags_.clip_norm));
  row("steps", fmt::format("{} to {}", state().step, flags_.steps));
  const std::string_view carrier = communicator_->carrier();
  row("world", fmt::format("{} {}, generation {}{}", world_.size, world_.size == 1 ? "rank" : "ranks", generation_,
                           carrier.empty() ? "" : fmt::format(", {} to rank 1", carrier)));
  row("numerics", backend_->numerics() + (flags_.deterministic ? ", deterministic" : ""));
  row("seed", fmt::format("{}", flags_.seed));
  row("memory",
      fmt::format("{:.1f} MiB of activations, {} gradient buckets",
                  static_cast<double>(replica_->arena_bytes()) / (1 << 20), replica_->layout().buckets.size()));
  if (!flags_.checkpoint_dir.empty()) {
    const std::chrono::duration<double> deadline = world_.storage_deadline;
    row("checkpoints", fmt::format("{}, each within {:.0f} s", flags_.checkpoint_dir, deadline.count()));
  }
}

void Training::print_result(const std::string& digest) const {
  report::Record record = {{"model", flags_.model},
                           {"step", state().step},
                           {"world_size", static_cast<std::int64_t>(world_.size)},
                           {"generation", generation_},
                           {"deterministic", flags_.deterministic},
                           {"train_loss", loss_},
                           {"initial_held_out_loss", first_held_out_loss_},
                           {"held_out_loss", held_out_loss_}};
  if (task_->model->results) {
    for (const models::Metric& metric : task_->model->results(task_->data, state().tensors())) {
      const auto* whole = std::get_if<std::int64_t>(&metric.value);
      record.emplace_back(metric.name, whole != nullptr ? report::Value(*whole) : std::get<double>(metric.value));
    }
  }
  const core::StepTimes& times = replica_->times();
  std::int64_t steps = state().step - first_step_;
  double all = times.load + times.forward + times.backward + times.wait + times.commit;
  auto share = [&](double part) { return all > 0 ? std::round(1000 * part / all) / 10 : 0.0; };
  record.emplace_back("digest", digest);
  record.emplace_back("steps_of_this_process", steps);
  record.emplace_back("seconds", std::chrono::duration<double>(Clock::now() - started_).count());
  record.emplace_back("samples_per_second", throughput_.median_samples_per_second());
  record.emplace_back("forward_percent", share(times.forward));
  record.emplace_back("backward_percent", share(times.backward));
  record.emplace_back("wait_percent", share(times.wait));
  record.emplace_back("commit_percent", share(times.commit));
  record.emplace_back("load_percent", share(times.load));
  print(stdout, "{}\n", report::format_result(record));
}

Status Training::write_sample() {
  core::Graph graph = task_->model->graph(flags_.model_options, task_->data, 1);
  LOCKSTEP_TRY(auto program,
               core::Program::compile(graph, *backend_, replica_->prediction(), {.pulse = &board_.pulse}));
  models::GenerateOptions options{
      .count = flags_.generate, .temperature = flags_.temperature, .seed = flags_.seed, .prompt = opening_.tokens};
  const std::atomic<bool> never{false};  // the gang is done and gone
  LOCKSTEP_TRY(auto tokens, models::generate(*program, options, never));
  tokens.insert(tokens.begin(), opening_.tokens.end() - static_cast<std::ptrdiff_t>(opening_.shown),
                opening_.tokens.end());
  print(stdout, "sample of {} characters:\n{}\nend of sample\n", flags_.generate,
        data::to_string(*task_->data.text, tokens));
  return {};
}

}  // namespace lockstep::trainer
