#include "trainer/core/step.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "trainer/core/fixed_point.h"
#include "trainer/core/mutation.h"

namespace lockstep::trainer::core {

namespace {

constexpr std::int64_t kMutatedStep = 6;  // committed before the step that mutations change
constexpr int kMaxRedone = 64;            // lowers an exponent by more than the range of double
constexpr int kEvaluationExponent = 24;   // held-out losses are summed with a step of 6e-8

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

comm::DataType communicated(ElementType real) {
  return real == ElementType::kFloat32 ? comm::DataType::kFloat32 : comm::DataType::kFloat64;
}

}  // namespace

Replica::Replica(const Graph& graph, Backend& backend, const Optimizer& optimizer, const SampleSource& source,
                 comm::Communicator& communicator, const StepOptions& options, const std::atomic<bool>& abort)
    : graph_(graph),
      backend_(backend),
      optimizer_(optimizer),
      source_(source),
      communicator_(&communicator),
      options_(options),
      abort_(abort),
      pulse_(options.pulse != nullptr ? *options.pulse : unwatched_),
      layout_(lay_out(graph, options.buckets)),
      norm_(layout_.count) {}

Result<std::unique_ptr<Replica>> Replica::create(const Graph& graph, Backend& backend, const Optimizer& optimizer,
                                                 const SampleSource& source, comm::Communicator& communicator,
                                                 const StepOptions& options, const std::atomic<bool>& abort) {
  if (options.micro_batches < 1 || options.micro_batches > kMaxSummands) {
    return fail(ErrorCode::kInvalid, "the global batch must have between 1 and " + std::to_string(kMaxSummands) +
                                         " micro-batches; this one has " + std::to_string(options.micro_batches));
  }
  std::unique_ptr<Replica> replica(new Replica(graph, backend, optimizer, source, communicator, options, abort));
  const Layout& layout = replica->layout_;
  LOCKSTEP_TRY(replica->state_, State::create(graph, backend, layout, optimizer.slots()));
  State& state = *replica->state_;
  LOCKSTEP_TRY(replica->gradients_, backend.allocate(layout.count * size_of(backend.real())));
  replica->staged_statistics_.resize(state.statistics.size());
  if (options.deterministic) replica->sums_.resize(layout.count);
  ProgramMemory memory{.layout = &layout,
                       .parameters = state.parameters->data(),
                       .gradients = replica->gradients_->data(),
                       .statistics = state.statistics.data(),
                       .staged_statistics = replica->staged_statistics_.data()};
  LOCKSTEP_TRY(replica->program_, Program::compile(graph, backend, memory, {.pulse = options.pulse}));
  for (TensorId id : graph.with_role(Role::kInput)) {
    replica->inputs_.push_back(replica->program_->data(id));
    replica->input_bytes_.push_back(bytes_of(graph.tensor(id), backend.real()));
  }
  for (auto& slot : state.slots) replica->slot_addresses_.push_back(slot->data());

  Footer& footer = replica->footer_;
  footer.loss = Footer::kOverflow + state.table.count;
  footer.statistics = footer.loss + 1;
  footer.words.resize(footer.statistics + state.statistics.size());
  replica->largest_sums_.resize(state.table.count);
  replica->exponents_.resize(state.table.count);
  replica->tickets_.reserve(layout.buckets.size() + 1);
  if (options.checksums) replica->computed_.reserve(static_cast<size_t>(options.micro_batches));
  if (options.initialize) state.initialize(options.seed);
  return replica;
}

void Replica::use(comm::Communicator& communicator, std::int64_t generation) {
  communicator_ = &communicator;
  generation_ = generation;
  pulse_.committed(state_->step);
  tickets_.clear();  // the next step overwrites everything else that is staged before it reads it
}

Result<StepReport> Replica::step(Control wish) {
  StepReport report;
  std::copy(state_->exponents.begin(), state_->exponents.end(), exponents_.begin());
  do {
    if (report.redone++ == kMaxRedone) return fail(ErrorCode::kInternal, "a sum fits no exponent");
    LOCKSTEP_CHECK_OK(compute_and_reduce(wish));
    pulse_.enter(Doing::kOther);
    const auto& words = footer_.words;
    if (words[Footer::kNotFinite] != 0) {
      report.loss = std::numeric_limits<double>::quiet_NaN();
      return report;
    }
  } while (lower_exponents());
  report.redone -= 1;
  report.leaving = static_cast<int>(footer_.words[Footer::kLeave]);
  report.control = {.stop = footer_.words[Footer::kStop] != 0,
                    .checkpoint = footer_.words[Footer::kCheckpoint] != 0,
                    .leave = report.leaving > 0,
                    .yield = footer_.words[Footer::kYield] > 0};

  Timed timed(times_.commit);
  pulse_.enter(Doing::kCommitting);
  finish_gradients();
  report.loss = staged_loss_;
  report.gradient_norm = norm_.norm(gradients_->data(), backend_.real(), backend_.threads());
  if (!std::isfinite(report.gradient_norm)) return report;
  bool clips = options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm;
  commit(clips ? options_.clip_norm / report.gradient_norm : 1.0);
  pulse_.enter(Doing::kOther);
  report.committed = true;
  report.step = state_->step;
  pulse_.committed(report.step);
  return report;
}

Status Replica::compute_and_reduce(Control wish) {
  std::fill_n(gradients_->data(), gradients_->bytes(), std::byte{0});
  const bool stages_twice = mutation() == Mutation::kStageTwice && tickets_.empty();  // use() has cleared them
  std::fill(
      footer_.words.begin(),
      stages_twice ? footer_.words.begin() + static_cast<std::ptrdiff_t>(footer_.statistics) : footer_.words.end(), 0);
  tickets_.clear();
  computed_.clear();
  std::int64_t stride = communicator_->size();
  std::int64_t first = communicator_->rank();
  for (std::int64_t j = first; j < options_.micro_batches; j += stride) {
    LOCKSTEP_CHECK_OK(compute_micro_batch(j, j == first, j + stride >= options_.micro_batches));
  }
  if (first >= options_.micro_batches) {  // more ranks than micro-batches: this one adds zeros
    std::fill(sums_.begin(), sums_.end(), 0);
    for (const Bucket& bucket : layout_.buckets) LOCKSTEP_CHECK_OK(submit_bucket(bucket));
  }
  footer_.words[Footer::kStop] = wish.stop ? 1 : 0;
  footer_.words[Footer::kCheckpoint] = wish.checkpoint ? 1 : 0;
  footer_.words[Footer::kLeave] = wish.leave ? 1 : 0;
  footer_.words[Footer::kYield] = wish.yield ? 1 : 0;
  LOCKSTEP_TRY(auto ticket, communicator_->submit(comm::AllReduce{footer_.words.data(), footer_.words.size(),
                                                                  comm::DataType::kInt64, comm::Reduction::kSum}));
  tickets_.push_back(ticket);
  return wait_for_all();
}

Status Replica::compute_micro_batch(std::int64_t index, bool first, bool last) {
  std::int64_t global_batch = options_.micro_batches * graph_.batch;
  RunContext context{.seed = options_.seed,
                     .step = state_->step,
                     .first_sample = index * graph_.batch,
                     .loss_scale = 1.0 / static_cast<double>(global_batch)};
  {
    Timed timed(times_.load);
    pulse_.enter(Doing::kLoading);
    for (std::int64_t row = 0; row < graph_.batch; ++row) {
      if (mutation() == Mutation::kDropSample && state_->step == kMutatedStep && row == 0) continue;
      source_.write(state_->step * global_batch + context.first_sample + row, row, inputs_);
    }
  }
  if (options_.checksums) computed_.push_back({index, checksum_of_inputs()});
  {
    Timed timed(times_.forward);
    pulse_.enter(Doing::kForward);
    LOCKSTEP_CHECK_OK(program_->forward(context, abort_));
  }
  add_to_footer(first);
  // A bucket leaves as soon as the last micro-batch has finished its last gradient; buckets are in that order.
  Timed timed(times_.backward);
  pulse_.enter(Doing::kBackward);
  size_t next = 0;
  for (size_t step = program_->steps(); step-- > 0;) {
    LOCKSTEP_CHECK_OK(program_->backward(step, context, abort_));
    const size_t done_from = program_->done_from(step);
    for (; next < layout_.buckets.size() && layout_.buckets[next].ready_node >= done_from; ++next) {
      if (options_.deterministic) round_bucket(layout_.buckets[next], first);
      if (last) LOCKSTEP_CHECK_OK(submit_bucket(layout_.buckets[next]));
    }
  }
  return {};
}

std::uint32_t Replica::checksum_of_inputs() const {
  boost::crc_32_type crc;
  for (size_t i = 0; i < inputs_.size(); ++i) crc.process_bytes(inputs_[i], input_bytes_[i]);
  return crc.checksum();
}

void Replica::add_to_footer(bool first) {
  State& state = *state_;
  double loss = 0;
  for (std::int64_t i = 0; i < graph_.batch; ++i) loss += program_->loss(i);
  auto add = [&](size_t exponent, const double* values, size_t count, size_t word) {
    RoundingFlags flags;
    const bool adds =
        !first || mutation() == Mutation::kStageTwice;  // to what compute_and_reduce() has cleared, or not
    round_into(values, count, exponents_[exponent], adds, &footer_.words[word], flags);
    footer_.words[Footer::kNotFinite] += flags.not_finite;
    footer_.words[Footer::kOverflow + exponent] += flags.overflow;
  };
  add(state.table.loss, &loss, 1, footer_.loss);
  size_t offset = 0;
  size_t exponent = state.table.statistics;
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (graph_.tensors[i].role != Role::kStatistic) continue;
    auto count = static_cast<size_t>(count_of(graph_.tensors[i].shape));
    add(exponent++, staged_statistics_.data() + offset, count, footer_.statistics + offset);
    offset += count;
  }
}

void Replica::round_bucket(const Bucket& bucket, bool first) {
  size_t width = size_of(backend_.real());
  for (size_t i = bucket.first_segment; i < bucket.end_segment; ++i) {
    const Segment& segment = layout_.segments[i];
    RoundingFlags flags;
    round_and_clear(gradients_->data() + segment.offset * width, backend_.real(), segment.count, exponents_[i], !first,
                    sums_.data() + segment.offset, backend_.threads(), flags);
    footer_.words[Footer::kNotFinite] += flags.not_finite;
    footer_.words[Footer::kOverflow + i] += flags.overflow;
  }
}

Status Replica::submit_bucket(const Bucket& bucket) {
  comm::AllReduce operation{.count = bucket.end - bucket.begin};
  if (options_.deterministic) {
    operation.data = sums_.data() + bucket.begin;
    operation.type = comm::DataType::kInt64;
  } else {
    operation.data = gradients_->data() + bucket.begin * size_of(backend_.real());
    operation.type = communicated(backend_.real());
  }
  LOCKSTEP_TRY(auto ticket, communicator_->submit(operation));
  tickets_.push_back(ticket);
  return {};
}

Status Replica::wait_for_all() {
  Timed timed(times_.wait);
  pulse_.enter(Doing::kWaiting);
  for (comm::Ticket ticket : tickets_) {
    Status reduced = communicator_->wait(ticket);
    if (!reduced && mutation() != Mutation::kApplyBroken) return reduced;
  }
  return {};
}

bool Replica::lower_exponents() {
  bool lowered = false;
  for (size_t i = 0; i < state_->table.count; ++i) {
    if (footer_.words[Footer::kOverflow + i] == 0) continue;
    exponents_[i] = std::max(exponents_[i] - kRetreat, -10 * kMaxExponent);
    lowered = true;
  }
  return lowered;
}

void Replica::finish_gradients() {
  State& state = *state_;
  double sum = 0;
  largest_sums_[state.table.loss] = unround(&footer_.words[footer_.loss], 1, exponents_[state.table.loss], &sum);
  staged_loss_ = sum / static_cast<double>(options_.micro_batches * graph_.batch);
  if (!options_.deterministic) return;
  size_t width = size_of(backend_.real());
  for (size_t i = 0; i < layout_.segments.size(); ++i) {
    const Segment& segment = layout_.segments[i];
    largest_sums_[i] = unround(sums_.data() + segment.offset, segment.count, exponents_[i],
                               gradients_->data() + segment.offset * width, backend_.real(), backend_.threads());
  }
}

void Replica::commit(double gradient_scale) {
  State& state = *state_;
  const std::uint64_t written = optimizer_.apply({.real = backend_.real(),
                                                  .layout = &layout_,
                                                  .parameters = state.parameters->data(),
                                                  .gradients = gradients_->data(),
                                                  .slots = slot_addresses_,
                                                  .gradient_scale = gradient_scale,
                                                  .step = state.step,
                                                  .threads = backend_.threads()});
  state.digested(written);
  commit_statistics();
  for (size_t i = options_.deterministic ? 0 : state.table.loss; i < state.table.count; ++i) {
    exponents_[i] = next_exponent(exponents_[i], largest_sums_[i]);
  }
  std::copy(exponents_.begin(), exponents_.end(), state.exponents.begin());
  if (counted(state.step)) state.step += 1;
  state.committed_in = generation_;
}

void Replica::commit_statistics() {
  State& state = *state_;
  size_t offset = 0;
  size_t exponent = state.table.statistics;
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    if (graph_.tensors[i].role != Role::kStatistic) continue;
    auto count = static_cast<size_t>(count_of(graph_.tensors[i].shape));
    double weight = graph_.tensors[i].weight;
    double* sums = staged_statistics_.data() + offset;
    largest_sums_[exponent] = unround(&footer_.words[footer_.statistics + offset], count, exponents_[exponent], sums);
    for (size_t k = 0; k < count; ++k) {
      double mean = sums[k] / static_cast<double>(options_.micro_batches);
      double& running = state.statistics[offset + k];
      running += weight * (mean - running);
    }
    offset += count;
    ++exponent;
  }
}

Result<double> Replica::evaluate() {
  RunContext context{.mode = RunContext::Mode::kEvaluate, .seed = options_.seed, .step = state_->step};
  std::int64_t samples = source_.held_out();
  std::int64_t words[2] = {0, 0};  // flags, sum
  for (std::int64_t begin = communicator_->rank() * graph_.batch; begin < samples;
       begin += communicator_->size() * graph_.batch) {
    std::int64_t count = std::min(graph_.batch, samples - begin);
    pulse_.enter(Doing::kLoading);
    for (std::int64_t row = 0; row < graph_.batch; ++row) {  // a last, short micro-batch is filled up with repeats
      source_.write_held_out(begin + std::min(row, count - 1), row, inputs_);
    }
    pulse_.enter(Doing::kForward);
    LOCKSTEP_CHECK_OK(program_->forward(context, abort_));
    double loss = 0;
    for (std::int64_t row = 0; row < count; ++row) loss += program_->loss(row);
    RoundingFlags flags;
    round_into(&loss, 1, kEvaluationExponent, true, &words[1], flags);
    words[0] += flags.not_finite + flags.overflow;
  }
  pulse_.enter(Doing::kOther);
  Meanwhile waiting(pulse_, Doing::kWaiting);
  LOCKSTEP_TRY(auto ticket,
               communicator_->submit(comm::AllReduce{words, 2, comm::DataType::kInt64, comm::Reduction::kSum}));
  LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
  if (words[0] != 0 || samples == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(static_cast<double>(words[1]), -kEvaluationExponent) / static_cast<double>(samples);
}

Result<bool> Replica::ranks_agree() {
  // All digests are equal exactly when the largest and the smallest are; the smallest is the complement's largest.
  auto mine = static_cast<std::int64_t>(state_->version().digest);
  std::int64_t words[2] = {mine, ~mine};
  Meanwhile waiting(pulse_, Doing::kWaiting);
  LOCKSTEP_TRY(auto ticket,
               communicator_->submit(comm::AllReduce{words, 2, comm::DataType::kInt64, comm::Reduction::kMax}));
  LOCKSTEP_CHECK_OK(communicator_->wait(ticket));
  return words[0] == ~words[1] || mutation() == Mutation::kTearTransfer;
}

}  // namespace lockstep::trainer::core
