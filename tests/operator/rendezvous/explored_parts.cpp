#include "tests/operator/rendezvous/explored_parts.h"

namespace lockstep::rendezvous::explorer {

std::uint64_t canonical(const Pod& pod) {
  Fingerprint fingerprint(pod.clock);
  add(fingerprint, pod);
  return fingerprint.value();
}

std::uint64_t canonical(const Coordinator& coordinator) {
  Fingerprint fingerprint(coordinator.clock);
  add(fingerprint, coordinator);
  return fingerprint.value();
}

std::uint64_t canonical(const AgentToCoordinator& message) {
  return Fingerprint().add(message).value();
}

std::uint64_t canonical(const CoordinatorToAgent& message) {
  return Fingerprint().add(message).value();
}

std::uint64_t canonical(const JobPlan& plan) {
  return Fingerprint().add(plan).value();
}

std::uint64_t canonical(const Links& links) {
  Fingerprint fingerprint;
  fingerprint.add(links.opened, links.list.size());
  for (const Link& link : links.list) {
    const auto& [session, coordinator, agent_open, coordinator_open, up, down, late] = link;
    fingerprint.add(session, coordinator, agent_open, coordinator_open, up, down, late);
  }
  return fingerprint.value();
}

std::uint64_t canonical(const Store& store) {
  const auto& [record, writes] = store;
  return Fingerprint().add(record, writes).value();
}

std::uint64_t canonical(const Operation& operation) {
  const auto& [writes, write, answered, answer] = operation;
  const auto& [version, next] = write;
  const auto& [loaded, new_version, conflict, unavailable] = answer;
  return Fingerprint().add(writes, version, next, answered, loaded, new_version, conflict, unavailable).value();
}

std::uint64_t canonical(const Chronicle& chronicle) {
  const auto& [recorded, agreed, generation_of_key, newest, confirmed, succeeded, deaths] = chronicle;
  Fingerprint fingerprint;
  fingerprint.add(recorded, agreed, generation_of_key, newest, succeeded, deaths, confirmed.size());
  for (const std::string& state : confirmed) fingerprint.add(state);
  return fingerprint.value();
}

const Parts::PodResult& Parts::after(Id pod, const PodEvent& event) {
  const auto [at, fresh] = pod_results_.try_emplace(Fingerprint().add(pod, fingerprint(event)).value());
  PodResult& result = at->second;
  if (!fresh) return result;
  Pod next = pods[pod];
  result.step = step(next, event);
  for (AgentToCoordinator& message : result.step.said) result.said.push_back(from_agents.put(std::move(message)));
  result.step.said.clear();
  result.pod = pods.put(std::move(next));
  return result;
}

const Parts::CoordinatorResult& Parts::after(Id coordinator, const CoordinatorEvent& event) {
  const auto [at, fresh] = coordinator_results_.try_emplace(Fingerprint().add(coordinator, fingerprint(event)).value());
  CoordinatorResult& result = at->second;
  if (!fresh) return result;
  Coordinator next = coordinators[coordinator];
  result.step = step(next, event);
  for (SendToMember& out : result.step.sent) {
    result.sent.emplace_back(out.session, to_agents.put(std::move(out.message)));
  }
  result.step.sent.clear();
  result.coordinator = coordinators.put(std::move(next));
  return result;
}

}  // namespace lockstep::rendezvous::explorer
