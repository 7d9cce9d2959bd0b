#include "operator/kube/leader_elector.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "operator/base/log.h"
#include "operator/base/timestamp.h"
#include "operator/kube/json_text.h"

namespace lockstep::kube {
namespace {

constexpr std::int64_t kMostLeaseTransitions = (std::int64_t{1} << 31) - 1;  // the field is an int32
constexpr double kJitter = 0.2;  // of the retry period, so that candidates do not collide

// The fields whose change restarts a candidate's wait for the Lease to expire.
bool same_claim(const Json& a, const Json& b) {
  for (const char* field : {"holderIdentity", "renewTime", "acquireTime"}) {
    if (text_at(a, {"spec", field}) != text_at(b, {"spec", field})) return false;
  }
  return integer_at(a, {"spec", "leaseTransitions"}) == integer_at(b, {"spec", "leaseTransitions"});
}

}  // namespace

LeaderOptions leader_options(Duration lease_duration) {
  LeaderOptions options;
  options.lease_duration = lease_duration;
  options.renew_deadline = lease_duration * 2 / 3;
  options.retry_period = lease_duration * 2 / 15;
  options.look_period = lease_duration / 30;
  return options;
}

std::string make_leader_identity() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::random_device random;
  return fmt::format("{}_{:08x}{:08x}", host[0] == '\0' ? "lockstep" : host.data(), random(), random());
}

LeaderState::LeaderState(LeaderOptions options, unsigned seed) : options_(std::move(options)), random_(seed) {}

Duration LeaderState::jittered(Duration delay) {
  const double factor = 1.0 + std::uniform_real_distribution<double>(0.0, kJitter)(random_);
  return std::chrono::duration_cast<Duration>(delay * factor);
}

LeaderState::Step LeaderState::next(MonotonicTime now, WallTime wall) {
  if (now < next_try_) {
    const auto until = leads_until_ ? std::min(next_try_, *leads_until_) : next_try_;
    return {Step::Action::kWait, {}, until};
  }
  if (!known_) return {Step::Action::kRead, {}, {}};
  if (!lease_) return {Step::Action::kCreate, claim(wall), {}};
  const std::string holder = text_at(*lease_, {"spec", "holderIdentity"});
  // This process's name without leadership: the answer to an earlier claim was lost. No other process may take that
  // Lease.
  if (holder.empty() || holder == options_.identity) return {Step::Action::kReplace, claim(wall), {}};
  const auto seconds = std::clamp<std::int64_t>(integer_at(*lease_, {"spec", "leaseDurationSeconds"}, 15), 1, 3600);
  if (now - changed_at_ >= std::chrono::seconds(seconds)) return {Step::Action::kReplace, claim(wall), {}};
  return {Step::Action::kRead, {}, {}};
}

// This process's claim on the Lease: all other fields are kept.
Json LeaderState::claim(WallTime wall) const {
  const std::string now = format_micro_timestamp(wall);
  Json lease = lease_.value_or(Json{{"apiVersion", kLeases.api_version()},
                                    {"kind", kLeases.kind},
                                    {"metadata", {{"name", options_.name}, {"namespace", options_.name_space}}}});
  Json& spec = lease["spec"];
  const bool renewal = lease_ && leads_until_ && text_at(lease, {"spec", "holderIdentity"}) == options_.identity;
  if (!renewal) {
    spec["acquireTime"] = now;
    // If a user deleted the Lease of this leader, the count continues where it was.
    const std::int64_t before = std::max(integer_at(lease, {"spec", "leaseTransitions"}), term_);
    spec["leaseTransitions"] = std::min(before + 1, kMostLeaseTransitions);
  } else {
    spec["leaseTransitions"] = std::max(integer_at(lease, {"spec", "leaseTransitions"}), term_);
  }
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = std::chrono::duration_cast<std::chrono::seconds>(options_.lease_duration).count();
  spec["renewTime"] = now;
  return lease;
}

void LeaderState::read(const std::optional<Json>& lease, MonotonicTime now) {
  // A failed read in between changes nothing: the Lease is as it was seen before, or its claim differs.
  const bool same = seen_ && lease.has_value() == lease_.has_value() && (!lease || same_claim(*lease, *lease_));
  // The first read starts the clock: how long the Lease was like this before is unknown.
  if (!same) changed_at_ = now;
  lease_ = lease;
  known_ = seen_ = true;
  if (!lease) return;  // create at once, also when leading: no other process can have taken it meanwhile
  const std::string holder = text_at(*lease, {"spec", "holderIdentity"});
  if (leads_until_ && holder != options_.identity) lost_ = true;
  if (!leads_until_ && !holder.empty() && holder != options_.identity) {
    const auto seconds = std::clamp<std::int64_t>(integer_at(*lease, {"spec", "leaseDurationSeconds"}, 15), 1, 3600);
    const MonotonicTime expires = changed_at_ + std::chrono::seconds(seconds);
    if (now < expires) next_try_ = std::min(now + jittered(options_.look_period), expires);
  }
}

void LeaderState::wrote(const Json& lease, MonotonicTime sent) {
  lease_ = lease;
  known_ = seen_ = true;
  changed_at_ = sent;
  term_ = std::max(term_, integer_at(lease, {"spec", "leaseTransitions"}, term_));
  // From the time of sending: other processes count from when they see it, which is later.
  leads_until_ = sent + options_.renew_deadline;
  next_try_ = sent + options_.retry_period;
}

void LeaderState::failed(const Error& error, MonotonicTime now) {
  // Whether the write arrived or lost a race, only the server knows.
  known_ = false;
  const bool raced = error.code == ErrorCode::kConflict || error.code == ErrorCode::kAlreadyExists;
  if (raced && leads_until_) return;  // read at once who holds it
  const auto asked = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(error.retry_after_seconds));
  next_try_ = now + std::max(jittered(options_.retry_period), leads_until_ ? Duration::zero() : asked);
}

Json LeaderState::released(WallTime wall) const {
  Json lease = lease_.value_or(Json::object());
  lease["spec"]["holderIdentity"] = "";
  lease["spec"]["leaseDurationSeconds"] = 1;
  lease["spec"]["leaseTransitions"] = std::max(integer_at(lease, {"spec", "leaseTransitions"}), term_);
  lease["spec"]["renewTime"] = format_micro_timestamp(wall);
  return lease;
}

LeaderElector::LeaderElector(Api& api, Clock& clock, MetricsRegistry& metrics, LeaderOptions options,
                             Callbacks callbacks)
    : api_(api),
      clock_(clock),
      options_(options),
      callbacks_(std::move(callbacks)),
      master_(metrics.gauge("leader_election_master_status", "1 when this process leads.", {{"name", options.name}})),
      state_(std::move(options), std::random_device{}()) {
  master_.set(0);
}

LeaderElector::~LeaderElector() {
  stop_thread();
}

void LeaderElector::start() {
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void LeaderElector::stop_thread() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void LeaderElector::raise_term(std::int64_t term) {
  std::int64_t known = least_term_;
  term = std::min(term, kMostLeaseTransitions);
  while (known < term && !least_term_.compare_exchange_weak(known, term)) {
  }
}

bool LeaderElector::is_leader_now() const {
  return clock_.now().time_since_epoch().count() < leads_until_ns_.load();
}

void LeaderElector::run(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable wake;
  const std::stop_callback on_stop(stop, [&] {
    const std::lock_guard guard(mutex);
    wake.notify_all();
  });
  bool led = false;
  while (!stop.stop_requested()) {
    if (state_.lost(clock_.now())) {
      leads_until_ns_ = 0;
      master_.set(0);
      log::error("leadership is lost", {{"lease", options_.name}, {"identity", options_.identity}});
      if (callbacks_.on_lost) callbacks_.on_lost();
      return;
    }
    state_.raise_term(least_term_);
    const auto step = state_.next(clock_.now(), clock_.wall_now());
    if (step.action == LeaderState::Step::Action::kWait) {
      std::unique_lock lock(mutex);
      while (!stop.stop_requested() && clock_.now() < step.until) clock_.wait_until(lock, wake, step.until);
      continue;
    }
    perform(step);
    if (const auto until = state_.leads_until(); until && !state_.lost(clock_.now())) {
      term_ = state_.term();
      leads_until_ns_ = until->time_since_epoch().count();
      if (led) continue;
      led = true;
      master_.set(1);
      log::info("leading", {{"lease", options_.name}, {"term", std::to_string(term_)}});
      if (callbacks_.on_started) callbacks_.on_started(term_);
    }
  }
}

void LeaderElector::perform(const LeaderState::Step& step) {
  const auto sent = clock_.now();
  if (step.action == LeaderState::Step::Action::kRead) {
    auto lease = api_.get(kLeases, options_.name_space, options_.name);
    if (lease) {
      state_.read(std::move(*lease), clock_.now());
    } else if (lease.error().code == ErrorCode::kNotFound) {
      state_.read(std::nullopt, clock_.now());
    } else {
      log::warn("cannot read the lease", {{"error", lease.error().message}});
      state_.failed(lease.error(), clock_.now());
    }
    return;
  }
  auto written = step.action == LeaderState::Step::Action::kCreate
                     ? api_.create(kLeases, options_.name_space, step.lease)
                     : api_.replace(kLeases, options_.name_space, options_.name, step.lease);
  if (written) {
    state_.wrote(*written, sent);
    return;
  }
  if (written.error().code != ErrorCode::kConflict && written.error().code != ErrorCode::kAlreadyExists) {
    log::warn("cannot write the lease", {{"error", written.error().message}});
  }
  state_.failed(written.error(), clock_.now());
}

void LeaderElector::release() {
  stop_thread();
  if (!is_leader_now()) return;
  state_.raise_term(least_term_);
  leads_until_ns_ = 0;
  master_.set(0);
  auto written = api_.replace(kLeases, options_.name_space, options_.name, state_.released(clock_.wall_now()));
  if (!written && written.error().code == ErrorCode::kConflict) {
    // A user labelled it, or the last renewal arrived without its answer.
    auto lease = api_.get(kLeases, options_.name_space, options_.name);
    if (!lease || text_at(*lease, {"spec", "holderIdentity"}) != options_.identity) return;
    state_.read(std::move(*lease), clock_.now());
    written = api_.replace(kLeases, options_.name_space, options_.name, state_.released(clock_.wall_now()));
  }
  if (!written) log::warn("the lease could not be released", {{"error", written.error().message}});
}

}  // namespace lockstep::kube
