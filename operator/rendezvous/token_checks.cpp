#include "operator/rendezvous/token_checks.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "operator/rendezvous/digest.h"

namespace lockstep::rendezvous {

namespace asio = boost::asio;

void TokenChecks::stop() {
  if (!threads_) return;
  threads_->stop();
  threads_->join();
}

bool TokenChecks::knows(const std::string& job, const Hello& hello) const {
  const auto pods = good_.find(job);
  if (pods == good_.end()) return false;
  const auto pod = pods->second.find(hello.pod_uid);
  return pod != pods->second.end() && !pod->second.empty() && pod->second == sha256(hello.token);
}

bool TokenChecks::start(const std::string& job, const Hello& hello, Done done) {
  const std::string token = sha256(hello.token);
  if (const auto pods = pending_.find(job); pods != pending_.end()) {
    if (const auto pod = pods->second.find(hello.pod_uid); pod != pods->second.end()) {
      if (const auto same = pod->second.find(token); same != pod->second.end()) {
        if (same->second.done.size() >= kMostOfAPod) return false;
        same->second.done.push_back(std::move(done));
        return true;
      }
      if (pod->second.size() >= kMostOfAPod) return false;
    }
  }
  if (count_ >= kMost) return false;
  ++count_;
  pending_[job][hello.pod_uid][token] = Check{hello, {std::move(done)}};
  if (!threads_) threads_.emplace(kAtOnce);
  asio::post(*threads_, [this, job, hello, token] {
    Status checked = authenticator_.check(hello.token, hello.name_space, hello.pod_name, hello.pod_uid);
    asio::post(io_, [this, job, uid = hello.pod_uid, token, checked = std::move(checked)] {
      answer(job, uid, token, checked);
    });
  });
  return true;
}

void TokenChecks::answer(const std::string& job, const std::string& pod_uid, const std::string& token,
                         const Status& checked) {
  --count_;
  auto& pods = pending_[job];
  Pod& pod = pods[pod_uid];
  const Check check = std::move(pod[token]);
  pod.erase(token);
  if (pod.empty()) pods.erase(pod_uid);
  if (pods.empty()) pending_.erase(job);
  if (checked) good_[job][pod_uid] = token;
  for (const Done& done : check.done) done(checked);
}

std::vector<Hello> TokenChecks::pending(const std::string& job) const {
  std::vector<Hello> hellos;
  const auto pods = pending_.find(job);
  if (pods == pending_.end()) return hellos;
  for (const auto& [uid, pod] : pods->second) {
    for (const auto& [token, check] : pod) hellos.push_back(check.hello);
  }
  return hellos;
}

void TokenChecks::keep(const std::string& job, const std::vector<ExpectedMember>& members) {
  const auto pods = good_.find(job);
  if (pods == good_.end()) return;
  std::map<std::string, std::string> kept;
  for (const ExpectedMember& member : members) {
    if (const auto pod = pods->second.find(member.pod_uid); pod != pods->second.end()) kept.insert(*pod);
  }
  pods->second = std::move(kept);
}

}  // namespace lockstep::rendezvous
