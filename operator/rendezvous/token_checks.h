// Which connection may speak for a pod. The authenticator is asked once for each pod and token, for several pods
// concurrently. Belongs to one thread, which runs `io`; the authenticator blocks threads of the checks' own.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {

class TokenChecks {
 public:
  static constexpr std::size_t kAtOnce = 32;     // reviews under way
  static constexpr std::size_t kMost = 4'096;    // that wait, or are under way
  static constexpr std::size_t kMostOfAPod = 4;  // with different tokens
  using Done = std::function<void(const Status& checked)>;

  TokenChecks(MemberAuthenticator& authenticator, boost::asio::io_context& io)
      : authenticator_(authenticator), io_(io) {}
  // Waits for the reviews that are under way. None of their `done` is called after `io` has stopped.
  ~TokenChecks() { stop(); }
  void stop();

  // Whether that very token of the pod was found good before.
  bool knows(const std::string& job, const Hello& hello) const;
  // Asks whether `hello` is what it claims to be; `done` is called on the thread of `io`. A HELLO of the same pod with
  // the same token waits for the answer to the first. False: too many are asked already, and `done` is not kept.
  bool start(const std::string& job, const Hello& hello, Done done);
  // The HELLOs of a job that wait for an answer.
  std::vector<Hello> pending(const std::string& job) const;
  // Forgets the tokens of all pods of the job but these.
  void keep(const std::string& job, const std::vector<ExpectedMember>& members);
  void forget(const std::string& job) { good_.erase(job); }

 private:
  struct Check {
    Hello hello;
    std::vector<Done> done;
  };
  using Pod = std::map<std::string, Check>;  // by digest of the token
  void answer(const std::string& job, const std::string& pod_uid, const std::string& token, const Status& checked);

  MemberAuthenticator& authenticator_;
  boost::asio::io_context& io_;
  std::map<std::string, std::map<std::string, std::string>> good_;  // digest of the token, by job and uid of the pod
  std::map<std::string, std::map<std::string, Pod>> pending_;       // by job and uid of the pod
  std::size_t count_ = 0;                                           // of pending_
  std::optional<boost::asio::thread_pool> threads_;                 // from the first check on
};

}  // namespace lockstep::rendezvous
