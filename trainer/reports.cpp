#include "trainer/reports.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "trainer/checkpoint/tensor.h"
#include "trainer/models/generate.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/peak_speed.h"
#include "trainer/print.h"
#include "trainer/state_views.h"

namespace lockstep::trainer {

namespace {

constexpr std::size_t kSkippedLines = 20;  // for people

}  // namespace

Reports::Reports(Rank& rank) : rank_(rank), throughput_(rank.flags.steps), started_(Clock::now()) {
  if (rank.flags.benchmark_warmup) benchmark_.emplace(*rank.flags.benchmark_warmup, rank.flags.batch_size);
}

Outcome<> Reports::open_metrics() {
  if (!rank_.leads() || rank_.flags.metrics_file.empty()) {
    metrics_.reset();
  } else if (!metrics_) {
    LOCKSTEP_TRY(metrics_, from(Origin::kConfig, report::MetricsFile::open(rank_.flags.metrics_file)));
  }
  return {};
}

Outcome<> Reports::open_ledger() {
  if (rank_.flags.ledger.empty()) return {};
  report::LedgerProcess process{.model = rank_.flags.model,
                                .backend = rank_.flags.backend,
                                .seed = rank_.flags.seed,
                                .deterministic = rank_.flags.deterministic,
                                .steps = rank_.flags.steps,
                                .batch_size = rank_.flags.batch_size,
                                .micro_batch_size = rank_.flags.micro_batch_size,
                                .context = rank_.task->data.context};
  if (rank_.task->data.text) {
    for (const data::TextFile& file : rank_.task->data.text->files) {
      std::error_code error;  // the relative name is enough if the working directory is unknown
      const std::filesystem::path absolute = std::filesystem::absolute(file.path, error);
      process.data.push_back(error ? file.path : absolute.string());
    }
  }
  LOCKSTEP_TRY(ledger_, from(Origin::kConfig, report::Ledger::open(rank_.flags.ledger, rank_.world.job_uid, process)));
  return {};
}

Outcome<> Reports::enter_in_ledger() {
  if (!ledger_) return {};
  const core::Version version = rank_.state().version();
  return from(Origin::kSave, ledger_->enter({.generation = rank_.generation,
                                             .rank = rank_.world.rank,
                                             .world = rank_.world.size,
                                             .step = version.step,
                                             .committed_in = version.committed_in,
                                             .digest = version.digest}));
}

Outcome<> Reports::commit_to_ledger() {
  if (!ledger_) return {};
  const core::Version version = rank_.state().version();  // which the optimizer has kept up
  report::LedgerStep line{.step = version.step,
                          .generation = version.committed_in,
                          .rank = rank_.world.rank,
                          .world = rank_.world.size,
                          .batches = {},
                          .digest = version.digest};
  for (const core::ComputedBatch& batch : rank_.replica->computed()) {
    line.batches.emplace_back(batch.index, batch.crc32);
  }
  return from(Origin::kSave, ledger_->step(line));
}

Outcome<> Reports::skipped() {
  if (!rank_.task->data.skipped) return {};
  for (const data::Damage& damage : rank_.task->data.skipped(skipped_)) {
    ++skipped_;
    if (skipped_ <= kSkippedLines) print(stdout, "skipped: {}\n", damage.why);
    if (skipped_ == kSkippedLines + 1) print(stdout, "skipped: more are counted, and stand in the ledger\n");
    if (!ledger_) continue;
    LOCKSTEP_CHECK_OK(
        from(Origin::kSave, ledger_->skipped({.file = damage.file, .offset = damage.offset, .why = damage.why})));
  }
  return {};
}

void Reports::entered(bool first) {
  const std::int64_t step = rank_.state().step;
  if (first) first_step_ = step;
  told_ = rank_.replica->times();  // what an abandoned step took is no part of the next one
  told_travelling_ns_ = rank_.communicator->activity().travelling_ns;
  if (!rank_.leads()) return;
  if (step > 0) tell_progress();  // there may be no further step that reports it
  if (first) print_configuration();
  const bool regrouped = !first || rank_.world.state_source.rank >= 0;
  if (regrouped) print(stdout, "regrouped into generation {} at step {}\n", rank_.generation, step);
}

Outcome<> Reports::step(const core::StepReport& report, double seconds) {
  throughput_.add(report.step, static_cast<double>(rank_.flags.batch_size), seconds);
  const report::StepParts parts = take_parts();
  const auto speed = benchmark_ ? benchmark_->add(seconds, parts, report.loss, take_traffic()) : std::nullopt;
  if (!rank_.leads()) return {};
  tell_progress();
  const report::ProgressLine line{report.step,
                                  rank_.flags.steps,
                                  rank_.epoch(),
                                  report.loss,
                                  throughput_.samples_per_second(),
                                  throughput_.eta_seconds()};
  if (report.step % rank_.flags.log_every == 0 || report.step == rank_.flags.steps) {
    print(stdout, "{}\n", report::format_progress(line));
  }
  if (speed) print(stdout, "{}\n", *speed);
  return from(Origin::kSave, metrics_ ? metrics_->write_step(line, seconds, parts) : Status());
}

// The parts of the step that was just committed.
report::StepParts Reports::take_parts() {
  const core::StepTimes& now = rank_.replica->times();
  const report::StepParts parts{.load = now.load - told_.load,
                                .forward = now.forward - told_.forward,
                                .backward = now.backward - told_.backward,
                                .wait = now.wait - told_.wait,
                                .commit = now.commit - told_.commit};
  told_ = now;
  return parts;
}

report::StepTraffic Reports::take_traffic() {
  const std::uint64_t now = rank_.communicator->activity().travelling_ns;
  const double ranks = rank_.world.size;
  const size_t width = rank_.flags.deterministic ? sizeof(std::int64_t) : core::size_of(rank_.backend->real());
  const auto bytes = static_cast<double>(rank_.replica->layout().count * width);
  const report::StepTraffic traffic{.seconds = 1e-9 * static_cast<double>(now - told_travelling_ns_),
                                    .bus_bytes = 2 * (ranks - 1) / ranks * bytes};
  told_travelling_ns_ = now;
  return traffic;
}

// After the last step, when the other ranks of this machine have ended or end.
void Reports::measure_peak() {
  const auto peak = peak_flops(*rank_.backend, SystemClock::instance());
  if (!peak) return print(stdout, "the peak speed of this backend is not known: {}\n", peak.error().message);
  peak_ = *peak;
}

double Reports::flops_of_a_sample() const {
  const core::Flops flops = core::flops_of(rank_.task->graph);
  return (flops.forward + flops.backward) / static_cast<double>(rank_.task->graph.batch);
}

void Reports::evaluated() {
  told_travelling_ns_ = rank_.communicator->activity().travelling_ns;  // it is no part of the next step
  if (!rank_.leads()) return;
  const core::Evaluation& found = rank_.evaluation;
  print(stdout, "eval step {}  held-out loss {:.4f}{}{}\n", rank_.state().step, found.loss,
        found.top1 ? fmt::format("  top-1 {:.2f} %", 100 * *found.top1) : "",
        found.top5 ? fmt::format("  top-5 {:.2f} %", 100 * *found.top5) : "");
}

Outcome<> Reports::result() {
  if (rank_.flags.generate > 0) LOCKSTEP_CHECK_OK(print_sample());
  LOCKSTEP_TRY(const checkpoint::State tensors,
               from(Origin::kInternal, state_tensors(rank_.state(), rank_.task->stored)));
  LOCKSTEP_TRY(auto digest, from(Origin::kInternal, checkpoint::state_digest(tensors)));
  if (benchmark_ && benchmark_->result().speed.steps > 0) {
    print(stdout, "{}\n", report::format_benchmark_total(benchmark_->result().speed.mean));
    measure_peak();
  } else if (benchmark_) {
    print(stdout, "no step was timed: this process made {}, and --benchmark-warmup={} leaves the first out\n",
          rank_.state().step - first_step_, *rank_.flags.benchmark_warmup);
  }
  print_result(digest);
  return {};
}

void Reports::tell_progress() const {
  rank_.agent->progress({.step = rank_.state().step,
                         .total_steps = rank_.flags.steps,
                         .epoch = rank_.epoch(),
                         .loss = rank_.losses.last,
                         .samples_per_second = throughput_.samples_per_second(),
                         .eta_seconds = throughput_.eta_seconds()});
}

void Reports::print_configuration() const {
  auto row = [](const char* name, const std::string& value) { print(stdout, "  {:<16}{}\n", name, value); };
  size_t parameters = 0;
  for (const core::Segment& segment : rank_.replica->layout().segments) parameters += segment.count;
  print(stdout, "configuration\n");
  row("model", fmt::format("{}, {} parameters, {} to train on a sample", rank_.flags.model, parameters,
                           report::format_flops(flops_of_a_sample())));
  if (!rank_.task->data.description.empty()) row("data", rank_.task->data.description);
  row("batch", fmt::format("{} samples in micro-batches of {}, {} samples in an epoch", rank_.flags.batch_size,
                           rank_.flags.micro_batch_size, rank_.task->data.epoch_samples));
  row("optimizer",
      fmt::format("{} learning-rate={} warmup-steps={} clip-norm={}", optim::describe(rank_.task->optimizer),
                  rank_.flags.learning_rate, rank_.flags.warmup_steps, *rank_.flags.clip_norm));
  row("steps", fmt::format("{} to {}", rank_.state().step, rank_.flags.steps));
  const std::string_view carrier = rank_.communicator->carrier();
  row("world", fmt::format("{} {}, generation {}{}", rank_.world.size, rank_.world.size == 1 ? "rank" : "ranks",
                           rank_.generation, carrier.empty() ? "" : fmt::format(", {} to rank 1", carrier)));
  row("numerics", rank_.backend->numerics() + (rank_.flags.deterministic ? ", deterministic" : ""));
  row("seed", fmt::format("{}", rank_.flags.seed));
  row("memory", fmt::format("{:.1f} MiB of activations, {} gradient buckets",
                            static_cast<double>(rank_.replica->arena_bytes()) / (1 << 20),
                            rank_.replica->layout().buckets.size()));
  if (!rank_.flags.checkpoint_dir.empty()) {
    const std::chrono::duration<double> deadline = rank_.world.storage_deadline;
    row("checkpoints", fmt::format("{}, each within {:.0f} s", rank_.flags.checkpoint_dir, deadline.count()));
  }
}

void Reports::add_benchmark(report::Record& record) const {
  const report::BenchmarkResult found = benchmark_->result();
  record.emplace_back("timed_steps", static_cast<std::int64_t>(found.speed.steps));
  record.emplace_back("images_per_second", found.speed.mean);
  record.emplace_back("images_per_second_error", found.speed.standard_error);
  record.emplace_back("images_per_second_jitter", found.speed.jitter);
  record.emplace_back("compute_images_per_second", found.compute_speed);
  record.emplace_back("input_stall_percent", found.input_stall_percent);
  record.emplace_back("exposed_communication_percent", found.exposed_communication_percent);
  record.emplace_back("bus_bytes_per_second", found.bus_bandwidth);
  const double flops = found.speed.mean * flops_of_a_sample(), peak = rank_.world.size * peak_;
  record.emplace_back("flops_per_second", flops);
  record.emplace_back("peak_flops_per_second", peak);
  record.emplace_back("percent_of_peak", peak > 0 ? 100 * flops / peak : 0.0);
}

// What the machine needs and how it is connected: what a speed must be quoted with.
void Reports::add_circumstances(report::Record& record) const {
  const core::State& state = rank_.state();
  const core::ElementType real = rank_.backend->real();
  const size_t elements = rank_.replica->layout().count;
  const size_t arenas = elements * core::size_of(real) * (2 + state.slots.size());  // parameters, gradients, slots
  const std::string_view carrier = rank_.communicator->carrier();
  record.emplace_back("batch_size", rank_.flags.batch_size);
  const std::string& precision = rank_.flags.precision;
  record.emplace_back("precision", std::string(real == core::ElementType::kFloat64 ? "float64"
                                               : precision == "bf16"               ? "bfloat16"
                                               : precision == "tf32"               ? "tf32"
                                                                                   : "float32"));
  record.emplace_back("transport", carrier.empty() ? std::string("none") : std::string(carrier));
  record.emplace_back("memory_bytes", static_cast<std::int64_t>(arenas + rank_.replica->arena_bytes()));
}

void Reports::print_result(const std::string& digest) const {
  report::Record record = {{"model", rank_.flags.model},
                           {"step", rank_.state().step},
                           {"world_size", static_cast<std::int64_t>(rank_.world.size)},
                           {"generation", rank_.generation},
                           {"deterministic", rank_.flags.deterministic},
                           {"train_loss", rank_.losses.last},
                           {"initial_held_out_loss", rank_.losses.first_held_out},
                           {"held_out_loss", rank_.evaluation.loss}};
  if (rank_.flags.follows_best() && rank_.best.step >= 0) {
    record.emplace_back("best_held_out_loss", rank_.best.loss);
    record.emplace_back("best_step", rank_.best.step);
  }
  if (rank_.evaluation.top1) record.emplace_back("top1_percent", 100 * *rank_.evaluation.top1);
  if (rank_.evaluation.top5) record.emplace_back("top5_percent", 100 * *rank_.evaluation.top5);
  if (rank_.task->model->results) {
    for (const models::Metric& metric : rank_.task->model->results(rank_.task->data, rank_.state().tensors())) {
      const auto* whole = std::get_if<std::int64_t>(&metric.value);
      record.emplace_back(metric.name, whole != nullptr ? report::Value(*whole) : std::get<double>(metric.value));
    }
  }
  if (rank_.task->data.skipped) record.emplace_back("skipped_records", static_cast<std::int64_t>(skipped_));
  if (rank_.task->data.reads) {
    const data::CacheReads reads = rank_.task->data.reads();
    record.emplace_back("images_from_memory", static_cast<std::int64_t>(reads.memory));
    record.emplace_back("images_from_cache_folder", static_cast<std::int64_t>(reads.folder));
    record.emplace_back("images_from_storage", static_cast<std::int64_t>(reads.storage));
  }
  const core::StepTimes& times = rank_.replica->times();
  std::int64_t steps = rank_.state().step - first_step_;
  double all = times.load + times.forward + times.backward + times.wait + times.commit;
  auto share = [&](double part) { return all > 0 ? std::round(1000 * part / all) / 10 : 0.0; };
  record.emplace_back("digest", digest);
  record.emplace_back("steps_of_this_process", steps);
  record.emplace_back("seconds", seconds_since(started_));
  record.emplace_back("samples_per_second", throughput_.median_samples_per_second());
  record.emplace_back("forward_percent", share(times.forward));
  record.emplace_back("backward_percent", share(times.backward));
  record.emplace_back("wait_percent", share(times.wait));
  record.emplace_back("commit_percent", share(times.commit));
  record.emplace_back("load_percent", share(times.load));
  add_circumstances(record);
  if (benchmark_ && benchmark_->result().speed.steps > 0) add_benchmark(record);
  print(stdout, "{}\n", report::format_result(record));
}

Outcome<> Reports::print_sample() const {
  core::Graph graph = rank_.task->model->graph(rank_.flags.model_options, rank_.task->data, 1);
  LOCKSTEP_TRY(auto program,
               from(Origin::kInternal, core::Program::compile(graph, *rank_.backend, rank_.replica->prediction(),
                                                              {.pulse = &rank_.board.pulse})));
  models::GenerateOptions options{.count = rank_.flags.generate,
                                  .temperature = rank_.flags.temperature,
                                  .seed = rank_.flags.seed,
                                  .prompt = rank_.opening.tokens};
  const std::atomic<bool> never{false};  // the gang is done and gone
  LOCKSTEP_TRY(auto tokens, from(Origin::kInternal, models::generate(*program, options, never)));
  tokens.insert(tokens.begin(), rank_.opening.tokens.end() - static_cast<std::ptrdiff_t>(rank_.opening.shown),
                rank_.opening.tokens.end());
  print(stdout, "sample of {} characters:\n{}\nend of sample\n", rank_.flags.generate,
        data::to_string(*rank_.task->data.text, tokens));
  return {};
}

}  // namespace lockstep::trainer
