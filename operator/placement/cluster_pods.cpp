// Pods, reservations and openings of the cluster, and where they count.
#include <algorithm>
#include <utility>

#include "operator/placement/cluster.h"
#include "operator/placement/objective.h"

namespace lockstep::placement {
namespace {

std::string key_of(const ScannedPod& pod) {
  return pod.name_space + "/" + pod.name;
}

// Its place can still be given up.
bool is_loose(const PodRecord& pod) {
  return (pod.is(kGated) || pod.is(kReservation)) && !pod.is(kOpened);
}

}  // namespace

std::int32_t Cluster::place_of(const std::string& node, std::int32_t guess) {
  if (node.empty()) return kNone;
  if (const std::string* name = name_of(guess); name != nullptr && *name == node) return guess;
  if (const NodeId id = tree_.find(node); id != kNone) return id;
  const auto [known, is_new] = absent_by_name_.try_emplace(node, 0);
  if (is_new) {
    if (free_absent_.empty()) {
      known->second = static_cast<std::int32_t>(absent_.size());
      absent_.emplace_back();
    } else {
      known->second = free_absent_.back();
      free_absent_.pop_back();
    }
    absent_[index(known->second)] = {node, kNone};
  }
  return absent(index(known->second));
}

const std::string* Cluster::name_of(std::int32_t node) const {
  if (node == kNone) return nullptr;
  return node >= 0 ? &tree_.node_name(node) : &absent_[absent_index(node)].name;
}

Cluster::PodIndex& Cluster::first_pod(std::int32_t node) {
  return node >= 0 ? nodes_[index(node)].first_pod : absent_[absent_index(node)].first_pod;
}

void Cluster::forget_absent(std::int32_t node) {
  Absent& known = absent_[absent_index(node)];
  absent_by_name_.erase(known.name);
  known = {};
  free_absent_.push_back(static_cast<std::int32_t>(absent_index(node)));
}

Cluster::PodIndex Cluster::new_record() {
  if (free_records_.empty()) {
    records_.emplace_back();
    return static_cast<PodIndex>(records_.size() - 1);
  }
  const PodIndex pod = free_records_.back();
  free_records_.pop_back();
  return pod;
}

void Cluster::drop(PodIndex pod) {
  detach(pod);
  rows_.release(records_[index(pod)].requests);
  records_[index(pod)] = {};
  free_records_.push_back(pod);
}

void Cluster::attach(PodIndex pod) {
  PodRecord& record = records_[index(pod)];
  if (record.node == kNone) return;
  PodIndex& first = first_pod(record.node);
  record.previous = kNone;
  record.next = std::exchange(first, pod);
  if (record.next != kNone) records_[index(record.next)].previous = pod;
  count(record, 1);
  count_young(record, 1);
}

void Cluster::detach(PodIndex pod) {
  PodRecord& record = records_[index(pod)];
  if (record.node == kNone) return;
  count(record, -1);
  count_young(record, -1);
  if (record.next != kNone) records_[index(record.next)].previous = record.previous;
  if (record.previous != kNone) {
    records_[index(record.previous)].next = record.next;
  } else {
    first_pod(record.node) = record.next;
  }
  if (record.node < kNone && first_pod(record.node) == kNone) forget_absent(record.node);
  record.node = record.next = record.previous = kNone;
}

void Cluster::count(const PodRecord& pod, int sign) {
  if (pod.node < 0) return;
  count_on(nodes_[index(pod.node)], pod, sign);
  tables_.touch(pod.node);
}

void Cluster::count_on(Node& node, const PodRecord& pod, int sign) const {
  add(node, pod, sign, node.used, node.port_pods);
}

void Cluster::add(const Node& node, const PodRecord& pod, int sign, std::vector<__int128>& sums,
                  std::int32_t& port_pods) const {
  const auto& has = rows_.entries(node.allocatable);
  std::size_t i = 0;
  for (const auto& [resource, units] : rows_.entries(pod.requests)) {
    while (i < has.size() && has[i].resource < resource) ++i;
    if (i == has.size()) break;
    if (has[i].resource == resource) sums[i] += sign > 0 ? units : -units;
  }
  if (pod.is(kHostPorts) && (pod.is(kReservation) || !pod.job.is_zero())) port_pods += sign;
}

void Cluster::forget_young(Node& node) {
  node.young_pods = node.young_port_pods = 0;
  node.young.clear();
}

bool Cluster::is_young(const PodRecord& pod) const {
  return now_ > 0 && (pod.started == 0 || pod.started + std::int64_t{kYoungSeconds} > now_);
}

void Cluster::count_young(const PodRecord& pod, int sign) {
  if (pod.node < 0 || !is_young(pod)) return;
  Node& node = nodes_[index(pod.node)];
  node.young_pods += sign;
  node.young.resize(node.used.size(), 0);
  add(node, pod, sign, node.young, node.young_port_pods);
  if (node.young_pods == 0) forget_young(node);
  if (sign > 0 && pod.started > 0) age_at(pod.node, pod.started + std::int64_t{kYoungSeconds});
}

void Cluster::set_started(PodRecord& pod, std::uint32_t started) {
  if (pod.started == started) return;
  const bool was_young = is_young(pod);
  count_young(pod, -1);
  pod.started = started;
  count_young(pod, 1);
  if (pod.node >= 0 && is_young(pod) != was_young) tables_.touch(pod.node);
}

void Cluster::age_at(NodeId id, std::int64_t time) {
  std::int64_t& ages_at = nodes_[index(id)].ages_at;
  if (ages_at > 0 && ages_at <= time) return;
  ages_at_.erase({ages_at, id});
  ages_at = time;
  ages_at_.emplace(time, id);
}

void Cluster::judge_ages(NodeId id) {
  Node& node = nodes_[index(id)];
  ages_at_.erase({node.ages_at, id});
  node.ages_at = 0;
  const std::int32_t before = node.young_pods;
  forget_young(node);
  each_pod(id, [&](const PodRecord& pod) { count_young(pod, 1); });
  if (node.young_pods != before) tables_.touch(id);
}

void Cluster::pass_time(std::int64_t now) {
  const std::int64_t before = std::exchange(now_, now);
  if (before == 0 || now < before) {
    for (NodeId node = 0; node < tree_.node_limit(); ++node) judge_ages(node);
  }
  while (!ages_at_.empty() && ages_at_.begin()->first <= now) judge_ages(ages_at_.begin()->second);
}

void Cluster::recount(NodeId id) {
  Node& node = nodes_[index(id)];
  node.used.assign(rows_.entries(node.allocatable).size(), 0);
  node.port_pods = 0;
  forget_young(node);
  for (PodIndex pod = node.first_pod; pod != kNone; pod = records_[index(pod)].next) {
    count(records_[index(pod)], 1);
    count_young(records_[index(pod)], 1);
  }
}

void Cluster::move_pods(PodIndex first, std::int32_t to) {
  std::vector<PodIndex> all;
  for (PodIndex pod = first; pod != kNone; pod = records_[index(pod)].next) all.push_back(pod);
  for (const PodIndex pod : all) {
    detach(pod);
    records_[index(pod)].node = to;
    attach(pod);
  }
}

void Cluster::begin_pods() {
  ++pod_list_;
}

void Cluster::end_pods(bool whole) {
  pods_listed_ = true;
  if (!whole) return;
  std::vector<Uid> gone;
  for (const auto& [uid, pod] : by_uid_) {
    if (records_[index(pod)].list != pod_list_) gone.push_back(uid);
  }
  for (const Uid& uid : gone) remove_uid(uid);
  end_openings_of_lost_pods();
}

void Cluster::put_pod(const ScannedPod& pod) {
  if (pod.terminal) {
    remove_pod(pod);
    return;
  }
  const auto [known, is_new] = by_uid_.try_emplace(pod.uid, kNone);
  if (is_new) {
    known->second = new_record();
    PodRecord& made = records_[index(known->second)];
    made.uid = pod.uid;
    made.requests = rows_.acquire(pod.requests);
    made.started = pod.started;
  }
  const PodIndex id = known->second;
  const std::int32_t node = place_of(pod.node, records_[index(id)].node);
  PodRecord& record = records_[index(id)];
  const bool same_requests = rows_.equal(record.requests, pod.requests);
  const bool counts_alike = same_requests && record.node == node && record.job == pod.job &&
                            record.is(kHostPorts) == ((pod.flags & kHostPorts) != 0);
  if (!counts_alike) {
    // A node that only this pod names is forgotten with it: its place is asked for again.
    detach(id);
    if (!same_requests) {
      const RowId requests = rows_.acquire(pod.requests);
      rows_.release(std::exchange(record.requests, requests));
    }
    record.job = pod.job;
    record.flags = pod.flags;
    record.node = place_of(pod.node, kNone);
    attach(id);
  }
  set_started(record, pod.started);
  record.flags = pod.flags;
  record.slot = pod.slot;
  record.priority = pod.priority;
  record.list = pod_list_;
  if (pod.job.is_zero()) return;
  if (!openings_.empty()) {
    const auto opening = openings_.find(key_of(pod));
    if (opening != openings_.end() && opening->second.node == pod.node) {
      // The watch may show the pod that is created before the answer to the create does.
      if (is_new && opening->second.uid.is_zero()) opening->second.uid = pod.uid;
      if (opening->second.uid == pod.uid) mark_opened(id, true);
    }
    if (opening != openings_.end() && opening->second.doubted && opening->second.uid == pod.uid &&
        (pod.flags & kGated) == 0) {
      end_opening(opening, true);
    }
  }
  if (!is_reserved(pod)) return;
  const auto reserved = reservations_.find(key_of(pod));
  if ((pod.flags & kBound) != 0 || record.node == records_[index(reserved->second.pod)].node) {
    end_reservation(reserved->first);
  }
}

bool Cluster::is_reserved(const ScannedPod& pod) const {
  if (reservations_.empty() || pod.job.is_zero()) return false;
  const std::string key = key_of(pod);
  if (!reservations_.contains(key)) return false;
  const auto opening = openings_.find(key);
  return opening == openings_.end() || opening->second.uid == pod.uid;
}

void Cluster::remove_pod(const ScannedPod& pod) {
  remove_uid(pod.uid);
  const auto opening = openings_.find(key_of(pod));
  if (opening != openings_.end() && opening->second.doubted && opening->second.uid == pod.uid) {
    end_opening(opening, true);
  }
  if (is_reserved(pod)) end_reservation(key_of(pod));
}

void Cluster::remove_uid(const Uid& uid) {
  const auto known = by_uid_.find(uid);
  if (known == by_uid_.end()) return;
  drop(known->second);
  by_uid_.erase(known);
}

void Cluster::observe(const std::string& resource_version) {
  observed_ = {resource_version.size(), resource_version};
  while (!by_version_.empty() && by_version_.begin()->first <= observed_) {
    const std::string pod = by_version_.begin()->second;
    end_reservation(pod);
  }
  while (!openings_by_version_.empty() && openings_by_version_.begin()->first <= observed_) {
    end_opening(openings_.find(openings_by_version_.begin()->second), true);
  }
}

void Cluster::reserve(const std::string& pod, NodeId node, ShapeId shape) {
  end_reservation(pod);
  const KnownShape& known = shapes_[index(shape)];
  const PodIndex id = new_record();
  PodRecord& record = records_[index(id)];
  record.node = node;
  record.requests = rows_.acquire(known.shape.requests);
  record.flags = static_cast<std::uint16_t>(kReservation | (known.shape.host_ports ? kHostPorts : 0));
  attach(id);
  reservations_[pod] = {id, {}};
}

void Cluster::written(const std::string& pod, const std::string& resource_version) {
  const auto reserved = reservations_.find(pod);
  if (reserved == reservations_.end() || resource_version.empty()) return;
  const Version version{resource_version.size(), resource_version};
  if (version <= observed_) {
    end_reservation(pod);
    return;
  }
  if (reserved->second.version.length > 0) {
    const auto [first, last] = by_version_.equal_range(reserved->second.version);
    by_version_.erase(std::find_if(first, last, [&](const auto& one) { return one.second == pod; }));
  }
  reserved->second.version = version;
  by_version_.emplace(version, pod);
}

void Cluster::unreserve(const std::string& pod) {
  if (const auto opening = openings_.find(pod); opening != openings_.end()) {
    opening->second.left = true;
    if (opening->second.doubted) end_opening(opening, true);
    return;
  }
  end_reservation(pod);
}

bool Cluster::open(const std::string& pod, const Uid& uid, NodeId id, ShapeId shape) {
  if (const auto before = openings_.find(pod); before != openings_.end()) end_opening(before, false);
  const auto reserved = reservations_.find(pod);
  const PodIndex reservation = reserved == reservations_.end() ? kNone : reserved->second.pod;
  const auto known = uid.is_zero() ? by_uid_.end() : by_uid_.find(uid);
  const PodIndex record = known == by_uid_.end() ? kNone : known->second;
  Node node = nodes_[index(id)];
  for (PodIndex other = node.first_pod; other != kNone; other = records_[index(other)].next) {
    if (other == reservation || other == record || is_loose(records_[index(other)])) {
      count_on(node, records_[index(other)], -1);
    }
  }
  if (room(shapes_[index(shape)], id, node, false) == 0) return false;
  openings_[pod] = {.uid = uid, .node = tree_.node_name(id), .version = {}, .left = false};
  const bool shown = record != kNone && records_[index(record)].node == id;
  if (shown) mark_opened(record, true);
  const bool is_reserved = reservation != kNone && records_[index(reservation)].node == id;
  if (!shown && !is_reserved) reserve(pod, id, shape);
  if (const auto made = reservations_.find(pod); made != reservations_.end()) mark_opened(made->second.pod, true);
  return true;
}

void Cluster::opened(const std::string& pod, const Uid& uid, const std::optional<std::string>& resource_version) {
  const auto opening = openings_.find(pod);
  if (opening == openings_.end()) return;
  if (!resource_version || resource_version->empty()) {
    // With a version it was shown_open() meanwhile: the write succeeded, and only its answer was lost.
    if (opening->second.version.length > 0) return;
    opening->second.doubted = !resource_version;
    const auto shown = by_uid_.find(opening->second.uid);
    const bool is_open = shown != by_uid_.end() && !records_[index(shown->second)].is(kGated);
    if (resource_version || opening->second.left || is_open) end_opening(opening, is_open);
    return;
  }
  openings_by_version_.erase({opening->second.version, pod});
  opening->second.version = {resource_version->size(), *resource_version};
  opening->second.uid = uid;
  openings_by_version_.emplace(opening->second.version, pod);
  if (opening->second.version <= observed_) end_opening(opening, true);
}

void Cluster::shown_open(const std::string& pod, const Uid& uid, NodeId id, ShapeId shape,
                         const std::string& resource_version) {
  const Version version{resource_version.size(), resource_version};
  if (version <= observed_) return;  // the watch shows it
  const auto known = by_uid_.find(uid);
  const bool shown = known != by_uid_.end() && records_[index(known->second)].node == id;
  if (shown) end_reservation(pod);
  if (shown && !is_loose(records_[index(known->second)]) && !openings_.contains(pod)) return;
  Opening& opening = openings_.try_emplace(pod).first->second;
  if (opening.version.length > 0 && opening.uid == uid) return;  // it ends with the write
  openings_by_version_.erase({opening.version, pod});
  opening = {.uid = uid, .node = tree_.node_name(id), .version = version, .left = false};
  openings_by_version_.emplace(version, pod);
  if (shown) {
    mark_opened(known->second, true);
    return;
  }
  const auto reserved = reservations_.find(pod);
  if (reserved == reservations_.end() || records_[index(reserved->second.pod)].node != id) reserve(pod, id, shape);
  mark_opened(reservations_.at(pod).pod, true);
}

void Cluster::mark_opened(PodIndex pod, bool opened) {
  std::uint16_t& flags = records_[index(pod)].flags;
  flags = static_cast<std::uint16_t>(opened ? flags | kOpened : flags & ~kOpened);
}

void Cluster::end_opening(std::map<std::string, Opening>::iterator opening, bool passed) {
  const auto [pod, ended] = *opening;
  openings_by_version_.erase({ended.version, pod});
  openings_.erase(opening);
  if (const auto known = by_uid_.find(ended.uid); known != by_uid_.end()) mark_opened(known->second, false);
  if (const auto reserved = reservations_.find(pod); reserved != reservations_.end()) {
    mark_opened(reserved->second.pod, false);
  }
  if (ended.left || passed) end_reservation(pod);
}

void Cluster::end_openings_of_lost_pods() {
  for (auto next = openings_.begin(); next != openings_.end();) {
    const auto opening = next++;
    const Opening& one = opening->second;
    if (one.doubted && !one.uid.is_zero() && !by_uid_.contains(one.uid)) end_opening(opening, true);
  }
}

void Cluster::end_reservation(const std::string& pod) {
  const auto reserved = reservations_.find(pod);
  if (reserved == reservations_.end()) return;
  const Reservation ended = reserved->second;
  if (ended.version.length > 0) {
    const auto [first, last] = by_version_.equal_range(ended.version);
    by_version_.erase(std::find_if(first, last, [&](const auto& one) { return one.second == reserved->first; }));
  }
  reservations_.erase(reserved);
  drop(ended.pod);
}

void Cluster::each_pod(NodeId node, const std::function<void(const PodRecord&)>& visit) const {
  for (PodIndex pod = nodes_[index(node)].first_pod; pod != kNone; pod = records_[index(pod)].next) {
    visit(records_[index(pod)]);
  }
}

std::int64_t Cluster::units(const PodRecord& pod, std::string_view resource) const {
  for (const auto& [id, units] : rows_.entries(pod.requests)) {
    if (rows_.name(id) == resource) return units;
  }
  return 0;
}

}  // namespace lockstep::placement
