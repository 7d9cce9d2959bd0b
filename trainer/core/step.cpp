#include "trainer/core/step.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "trainer/core/fixed_point.h"
#include "trainer/core/mutation.h"

namespace lockstep::trainer::core {

namespace {

constexpr std::int64_t kMutatedStep = 6;  // committed before the step that mutations change
constexpr std::int64_t kNoStep = -1;      // samples that are not trained on
constexpr int kMaxAttempts = 64;          // lower an exponent by more than the range of double
constexpr int kEvaluationExponent = 24;   // held-out losses are summed with a step of 6e-8
constexpr std::int64_t kTopFew = 5;       // of top-5

// The words of an evaluation, which ranks sum.
enum : size_t { kFlags, kLoss, kTop1, kTop5, kWords };

// Adds the time of its life to `total`.
class Timed {
 public:
  explicit Timed(double& total) : total_(total) {}
  ~Timed() { total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& total_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Whether a step that was applied is counted.
bool counted(std::int64_t step) {
  if (mutation() != Mutation::kForgetStep || step != kMutatedStep) return true;
  static bool forgotten = false;
  return std::exchange(forgotten, true);
}

}  // namespace

Replica::Replica(const ReplicaParts& parts, const StepOptions& options, const std::atomic<bool>& abort)
    : parts_(parts),
      communicator_(&parts.communicator),
      options_(options),
      abort_(abort),
      pulse_(options.pulse != nullptr ? *options.pulse : unwatched_),
      layout_(lay_out(parts.graph, options.buckets)),
      classification_(classification_of(parts.graph)) {}

Replica::~Replica() {
  static_cast<void>(parts_.backend.wait(parts_.backend.mark()));
}

Result<std::unique_ptr<Replica>> Replica::create(const ReplicaParts& parts, const StepOptions& options,
                                                 const std::atomic<bool>& abort) {
  std::unique_ptr<Replica> replica(new Replica(parts, options, abort));
  const Layout& layout = replica->layout_;
  Backend& backend = parts.backend;
  LOCKSTEP_TRY(replica->state_, State::create(parts.graph, backend, layout, slots_of(parts.optimizer.rule)));
  State& state = *replica->state_;
  LOCKSTEP_TRY(replica->gradients_, backend.allocate(layout.count * size_of(backend.real())));
  const size_t statistics = state.statistics.size();
  replica->staged_statistics_.resize(statistics);
  LOCKSTEP_TRY(replica->statistics_, backend.allocate(statistics * sizeof(double)));
  LOCKSTEP_TRY(replica->batch_statistics_, backend.allocate(statistics * sizeof(double)));
  LOCKSTEP_CHECK_OK(parts.synchronizer.attach({.graph = parts.graph,
                                               .layout = layout,
                                               .backend = backend,
                                               .state = state,
                                               .gradients = *replica->gradients_,
                                               .statistics = replica->staged_statistics_,
                                               .micro_batches = options.micro_batches}));
  parts.synchronizer.use(parts.communicator);
  ProgramMemory memory{.layout = &layout,
                       .parameters = state.parameters->data(),
                       .gradients = replica->gradients_->data(),
                       .statistics = reinterpret_cast<double*>(replica->statistics_->data()),
                       .staged_statistics = reinterpret_cast<double*>(replica->batch_statistics_->data())};
  LOCKSTEP_TRY(replica->program_, Program::compile(parts.graph, backend, memory,
                                                   {.pulse = options.pulse, .recompute = options.recompute}));
  for (TensorId id : parts.graph.with_role(Role::kInput)) {
    replica->inputs_.push_back(replica->program_->data(id));
    replica->input_bytes_.push_back(bytes_of(parts.graph.tensor(id), backend.real()));
  }
  for (auto& slot : state.slots) replica->slot_addresses_.push_back(slot->data());
  if (options.checksums) replica->computed_.reserve(static_cast<size_t>(options.micro_batches));
  const size_t input_bytes = std::accumulate(replica->input_bytes_.begin(), replica->input_bytes_.end(), size_t{0});
  for (InFlight& batch : replica->in_flight_) {
    batch.losses.resize(replica->program_->loss_bytes());
    batch.statistics.resize(statistics);
    if (options.checksums) batch.inputs.resize(input_bytes);
  }
  if (options.initialize) LOCKSTEP_CHECK_OK(state.initialize(options.seed));
  state.changed();
  return replica;
}

void Replica::use(comm::Communicator& communicator, std::int64_t generation) {
  communicator_ = &communicator;
  generation_ = generation;
  ahead_.position.reset();
  pulse_.committed(state_->step);
  parts_.synchronizer.use(communicator);
}

// What a failed run has enqueued must not touch the next one. Its own error says why it failed.
template <typename T>
Result<T> Replica::settled(Result<T> result) {
  if (!result) static_cast<void>(parts_.backend.wait(parts_.backend.mark()));
  return result;
}

Result<StepReport> Replica::step(Control wish) {
  return settled(run_step(wish));
}

Result<StepReport> Replica::run_step(const Control& wish) {
  using Outcome = Agreement::Outcome;
  Backend& backend = parts_.backend;
  samples_failed_ = false;
  StepReport report;
  Agreement agreement{.outcome = Outcome::kRepeat};
  for (int attempt = 0; agreement.outcome == Outcome::kRepeat; ++attempt) {
    if (attempt == kMaxAttempts) {
      return fail(ErrorCode::kInternal, "step " + std::to_string(state_->step + 1) +
                                            ": a gradient sum overflows every fixed-point exponent; lower "
                                            "--learning-rate or set --clip-norm");
    }
    report.redone = attempt;
    LOCKSTEP_TRY(const Share share, parts_.synchronizer.begin(attempt));
    clear_gradients(share);
    if (attempt == 0) {
      parts_.source.aim({.step = state_->step,
                         .first = share.first,
                         .stride = share.stride,
                         .end = share.end,
                         .micro_batches = options_.micro_batches,
                         .rows = parts_.graph.batch,
                         .offset = state_->samples - state_->step * samples_of_step()});
    }
    LOCKSTEP_CHECK_OK(compute(share));
    Timed timed(times_.wait);
    pulse_.enter(Doing::kWaiting);
    LOCKSTEP_TRY(agreement, parts_.synchronizer.finish(wish));
    pulse_.enter(Doing::kOther);
  }
  if (agreement.outcome == Outcome::kNotFinite) {
    report.loss = std::numeric_limits<double>::quiet_NaN();
    return report;
  }
  report.loss = agreement.loss;
  report.control = agreement.control;
  report.leaving = agreement.leaving;

  Timed timed(times_.commit);
  pulse_.enter(Doing::kCommitting);
  backend.norm(gradients_->data(), layout_.count, &report.gradient_norm);
  LOCKSTEP_CHECK_OK(backend.wait(backend.mark()));
  if (!std::isfinite(report.gradient_norm)) return report;
  const bool clips = options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm;
  LOCKSTEP_CHECK_OK(commit(clips ? options_.clip_norm / report.gradient_norm : 1.0));
  pulse_.enter(Doing::kOther);
  report.committed = true;
  report.step = state_->step;
  pulse_.committed(report.step);
  return report;
}

// The first micro-batch overwrites the rest, if the share has one.
void Replica::clear_gradients(const Share& share) {
  if (share.empty()) return parts_.backend.clear(gradients_->data(), gradients_->bytes());
  program_->clear_added();
}

// Two micro-batches are on their way at a time, so that the backend has work while the host takes results.
Status Replica::compute(const Share& share) {
  computed_.clear();
  refresh();
  std::int64_t begun = 0, taken = 0;
  auto slot = [&](std::int64_t number) -> InFlight& { return in_flight_[static_cast<size_t>(number % kInFlight)]; };
  for (std::int64_t j = share.first; j < share.end; j += share.stride) {
    if (begun - taken == kInFlight) LOCKSTEP_CHECK_OK(take_results(slot(taken++)));
    InFlight& batch = slot(begun++);
    batch.index = j;
    batch.turn = {.first = j == share.first, .last = j + share.stride >= share.end};
    LOCKSTEP_CHECK_OK(compute_micro_batch(batch, share));
  }
  load_ahead(share);
  while (taken < begun) LOCKSTEP_CHECK_OK(take_results(slot(taken++)));
  return {};
}

Status Replica::compute_micro_batch(InFlight& batch, const Share& share) {
  const std::int64_t rows = parts_.graph.batch;
  const RunContext context{.seed = options_.seed,
                           .step = state_->step,
                           .first_sample = batch.index * rows,
                           .loss_scale = 1.0 / static_cast<double>(share.samples),
                           .overwrites = batch.turn.first};
  {
    Timed timed(times_.load);
    const Meanwhile loading(pulse_, Doing::kLoading, options_.loading_rest);
    const std::int64_t position = state_->samples + context.first_sample;
    LOCKSTEP_TRY(batch.samples, taken(parts_.source.take(position, rows, abort_)));
    const std::optional<std::int64_t> held = std::exchange(ahead_.position, std::nullopt);
    const bool is_loaded = mutation() == Mutation::kTrustAhead ? held.has_value() : held == position;
    if (!is_loaded) LOCKSTEP_CHECK_OK(load(batch.samples, state_->step));
  }
  {
    Timed timed(times_.forward);
    pulse_.enter(Doing::kForward);
    LOCKSTEP_CHECK_OK(forward(context));
    read_results(batch);
  }
  Timed timed(times_.backward);
  pulse_.enter(Doing::kBackward);
  return backward(context, batch.turn);
}

// Buckets are laid out in the order of the backward pass, so the forward pass needs them from the last to the first.
Status Replica::forward(const RunContext& context) {
  size_t needed = layout_.buckets.size();
  for (size_t step = 0; step < program_->steps(); ++step) {
    const size_t last_node = program_->last_node(step);
    for (; needed > 0 && layout_.buckets[needed - 1].ready_node <= last_node; --needed) {
      LOCKSTEP_CHECK_OK(parts_.synchronizer.need(needed - 1));
    }
    refresh();
    LOCKSTEP_CHECK_OK(ran(program_->forward(step, context, abort_)));
  }
  return {};
}

// Hands each bucket over as soon as its last gradient is written.
Status Replica::backward(const RunContext& context, Turn turn) {
  size_t next = 0;
  for (size_t step = program_->steps(); step-- > 0;) {
    LOCKSTEP_CHECK_OK(ran(program_->backward(step, context, abort_)));
    const size_t done_from = program_->done_from(step);
    for (; next < layout_.buckets.size() && layout_.buckets[next].ready_node >= done_from; ++next) {
      LOCKSTEP_CHECK_OK(parts_.synchronizer.ready(next, turn));
    }
  }
  return {};
}

// Remembers whose error it is: a source that was cancelled was told so by others.
Result<Batch> Replica::taken(Result<Batch> batch) {
  samples_failed_ = !batch && batch.error().code != ErrorCode::kCancelled;
  return batch;
}

// The same of work on the samples: a kernel that finds them corrupt says so at once, or when its work is waited for.
Status Replica::ran(Status work) {
  samples_failed_ = samples_failed_ || (!work && work.error().code == ErrorCode::kCorrupt);
  return work;
}

// Copies a batch to the inputs of the program, for the step that follows `step` committed ones.
Status Replica::load(const Batch& batch, std::int64_t step) {
  Backend& backend = parts_.backend;
  const bool drops_first = mutation() == Mutation::kDropSample && step == kMutatedStep;  // the first row of each input
  const std::vector<Batch::Input>& from = batch.inputs();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const PixelValues* const pixels = i == 0 ? batch.pixels() : nullptr;
    const size_t bytes_of_one = pixels != nullptr ? size_of(backend.real()) : 1;  // of the input, for a byte of `from`
    if (from.size() != inputs_.size() || from[i].size() * bytes_of_one != input_bytes_[i]) {
      return fail(ErrorCode::kInternal, "the samples do not have the shapes of the graph's inputs");
    }
    const size_t dropped = drops_first ? from[i].size() / static_cast<size_t>(parts_.graph.batch) : 0;
    std::byte* const to = static_cast<std::byte*>(inputs_[i]) + dropped * bytes_of_one;
    const Batch::Input rest = from[i].subspan(dropped);
    if (pixels != nullptr) {
      backend.write_pixels(to, reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size(), *pixels);
    } else {
      backend.write(to, rest.data(), rest.size());
    }
  }
  return {};
}

// Writes the first micro-batch of the next step, if that step shares out the work as this one does. The bytes cross to
// a device while it computes this step. What reads the inputs was enqueued before.
void Replica::load_ahead(const Share& share) {
  Backend& backend = parts_.backend;
  const bool crosses = !inputs_.empty() && backend.host(static_cast<std::byte*>(inputs_[0])) == nullptr;
  if (!crosses || share.first >= share.end || !backend.reached(ahead_.written)) return;
  Timed timed(times_.wait);  // the time is the device's, which computes
  const std::int64_t rows = parts_.graph.batch;
  const std::int64_t position = state_->samples + samples_of_step() + share.first * rows;
  std::optional<Batch> next = parts_.source.peek(position, rows);
  if (!next) return;
  ahead_.samples = std::move(*next);
  const bool loaded = load(ahead_.samples, state_->step + 1).ok();
  ahead_.written = backend.mark();
  if (loaded) ahead_.position = position;
}

void Replica::read_results(InFlight& batch) {
  Backend& backend = parts_.backend;
  program_->read_losses(batch.losses.data());
  backend.read(batch.statistics.data(), batch_statistics_->data(), batch_statistics_->bytes());
  std::byte* to = batch.inputs.data();
  for (size_t i = 0; options_.checksums && i < inputs_.size(); to += input_bytes_[i++]) {
    backend.read(to, static_cast<const std::byte*>(inputs_[i]), input_bytes_[i]);
  }
  batch.mark = backend.mark();
}

Status Replica::take_results(const InFlight& batch) {
  {
    Timed timed(times_.wait);
    LOCKSTEP_CHECK_OK(ran(parts_.backend.wait(batch.mark)));
  }
  if (options_.checksums) {
    boost::crc_32_type crc;
    crc.process_bytes(batch.inputs.data(), batch.inputs.size());
    computed_.push_back({batch.index, crc.checksum()});
  }
  parts_.synchronizer.computed(program_->sum_of_losses(batch.losses.data(), parts_.graph.batch), batch.statistics,
                               batch.turn);
  return {};
}

// Brings what the backend derives from the state up to date.
void Replica::refresh() {
  if (refreshed_ == state_->changes()) return;
  parts_.backend.write(statistics_->data(), state_->statistics.data(), statistics_->bytes());
  refreshed_ = state_->changes();
}

ProgramMemory Replica::prediction() {
  refresh();
  return {.layout = &layout_,
          .parameters = state_->parameters->data(),
          .statistics = reinterpret_cast<double*>(statistics_->data())};
}

// The step counts when the backend has written what the synchronizer installed.
Status Replica::commit(double gradient_scale) {
  parts_.synchronizer.commit([this, gradient_scale] { optimize(gradient_scale); });
  const bool waits = mutation() != Mutation::kCommitEarly;
  if (const Status written = waits ? parts_.backend.wait(parts_.backend.mark()) : Status(); !written) {
    return fail(ErrorCode::kInternal, written.error().message);  // no peer has a part in it
  }
  commit_statistics();
  if (counted(state_->step)) {
    state_->step += 1;
    state_->samples += samples_of_step();
  }
  state_->committed_in = generation_;
  return {};
}

void Replica::optimize(double gradient_scale) {
  const Update update{.layout = &layout_,
                      .parameters = state_->parameters->data(),
                      .gradients = gradients_->data(),
                      .slots = slot_addresses_,
                      .gradient_scale = gradient_scale,
                      .step = state_->step};
  state_->digested(parts_.backend.update(parts_.optimizer, update));
}

void Replica::commit_statistics() {
  for (const Segment& segment : layout_.statistics) {
    const double of_newest = parts_.graph.tensor(segment.tensor).weight;
    const double weight = mutation() == Mutation::kSwapMomentum ? 1 - of_newest : of_newest;
    for (size_t i = segment.offset; i < segment.offset + segment.count; ++i) {
      state_->statistics[i] += weight * (staged_statistics_[i] - state_->statistics[i]);
    }
  }
}

Result<Evaluation> Replica::evaluate() {
  return settled(run_evaluation());
}

Result<Evaluation> Replica::run_evaluation() {
  const std::int64_t samples = parts_.source.held_out(), batch = parts_.graph.batch;
  std::vector<std::int64_t> words(kWords, 0);
  samples_failed_ = false;
  LOCKSTEP_CHECK_OK(complete());  // once: ranks evaluate different numbers of batches
  refresh();
  for (std::int64_t first = communicator_->rank() * batch; first < samples; first += communicator_->size() * batch) {
    LOCKSTEP_CHECK_OK(evaluate_batch(first, std::min(batch, samples - first), words));
  }
  pulse_.enter(Doing::kOther);
  Meanwhile waiting(pulse_, Doing::kWaiting);
  LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::AllReduce{words.data(), words.size(), comm::DataType::kInt64,
                                                                  comm::Reduction::kSum}));
  LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
  Evaluation evaluation{.loss = std::numeric_limits<double>::quiet_NaN()};
  if (samples == 0) return evaluation;
  const auto all = static_cast<double>(samples);
  if (words[kFlags] == 0) evaluation.loss = std::ldexp(static_cast<double>(words[kLoss]), -kEvaluationExponent) / all;
  if (!classification_) return evaluation;
  evaluation.top1 = static_cast<double>(words[kTop1]) / all;
  if (parts_.graph.tensor(classification_->scores).shape[1] > kTopFew) {
    evaluation.top5 = static_cast<double>(words[kTop5]) / all;
  }
  return evaluation;
}

// Adds the first `count` rows of a batch to the words.
Status Replica::evaluate_batch(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& words) {
  const RunContext context{.mode = RunContext::Mode::kEvaluate, .seed = options_.seed, .step = state_->step};
  Backend& backend = parts_.backend;
  InFlight& batch = in_flight_.front();  // its memory outlives the work of a failed evaluation
  {
    const Meanwhile loading(pulse_, Doing::kLoading, options_.loading_rest);
    LOCKSTEP_TRY(batch.samples, taken(parts_.source.take_held_out(first, parts_.graph.batch, abort_)));
    ahead_.position.reset();
    LOCKSTEP_CHECK_OK(load(batch.samples, kNoStep));
  }
  pulse_.enter(Doing::kForward);
  LOCKSTEP_CHECK_OK(ran(program_->forward(context, abort_)));
  program_->read_losses(batch.losses.data());
  std::vector<std::byte> scores;
  std::vector<std::int32_t> classes;
  if (classification_) {
    scores.resize(bytes_of(parts_.graph.tensor(classification_->scores), backend.real()));
    classes.resize(static_cast<size_t>(parts_.graph.batch));
    backend.read(scores.data(), static_cast<const std::byte*>(program_->data(classification_->scores)), scores.size());
    backend.read(classes.data(), static_cast<const std::byte*>(program_->data(classification_->classes)),
                 classes.size() * sizeof(std::int32_t));
  }
  LOCKSTEP_CHECK_OK(ran(backend.wait(backend.mark())));
  const double loss = program_->sum_of_losses(batch.losses.data(), count);
  RoundingFlags flags;
  round_into(&loss, 1, kEvaluationExponent, true, &words[kLoss], flags);
  words[kFlags] += flags.not_finite + flags.overflow;
  if (!classification_) return {};
  const auto width = static_cast<size_t>(parts_.graph.tensor(classification_->scores).shape[1]);
  for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
    const auto correct = static_cast<size_t>(classes[row]);
    const std::int64_t place = place_of(scores.data(), backend.real(), row, width, correct);
    words[kTop1] += place < 1 ? 1 : 0;
    words[kTop5] += place < kTopFew ? 1 : 0;
  }
  return {};
}

Status Replica::complete() {
  const Meanwhile waiting(pulse_, Doing::kWaiting);
  for (size_t bucket = layout_.buckets.size(); bucket-- > 0;) {
    LOCKSTEP_CHECK_OK(parts_.synchronizer.need(bucket));
  }
  return {};
}

Version Replica::shareable() {
  return parts_.synchronizer.model() == StateModel::kReplicated ? state_->version() : Version{};
}

Result<bool> Replica::ranks_agree() {
  // All digests are equal exactly when the largest and the smallest are; the smallest is the complement's largest.
  const bool compared = parts_.synchronizer.model() == StateModel::kReplicated;
  const std::int64_t mine = compared ? static_cast<std::int64_t>(state_->version().digest) : 0;
  std::int64_t words[2] = {mine, ~mine};
  Meanwhile waiting(pulse_, Doing::kWaiting);
  LOCKSTEP_TRY(auto ticket,
               communicator_->submit(comm::AllReduce{words, 2, comm::DataType::kInt64, comm::Reduction::kMax}));
  LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
  return words[0] == ~words[1] || mutation() == Mutation::kTearTransfer;
}

}  // namespace lockstep::trainer::core
