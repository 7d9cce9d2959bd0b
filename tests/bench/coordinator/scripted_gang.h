// Agents that send the messages of real ones, over TLS, and have no processes: thousands of them in one process, on two
// threads. Each reconnects when its connection ends, like a real agent.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "operator/rendezvous/protocol.h"

namespace lockstep::bench {

// The pod that an agent speaks for.
struct ScriptedPod {
  std::string name, uid, token;
  std::int64_t incarnation = 1;
};

class ScriptedGang {
 public:
  // One agent for each pod, by slot. `ca_pem`: the authority of the coordinator, which listens on the loopback.
  ScriptedGang(const std::vector<ScriptedPod>& pods, const std::string& ca_pem, int port);
  ~ScriptedGang();

  // Its pod was deleted: the connection ends and does not return. The others report that their communicators failed.
  void lose(int slot);
  // Another pod takes the slot.
  void replace(int slot, const ScriptedPod& pod);

  // Heartbeats that all of them have sent so far.
  std::int64_t heartbeats() const { return heartbeats_.load(); }
  // How often the coordinator told a member to start, or to continue.
  std::int64_t started() const { return started_.load(); }
  // Bytes that all of them have read, after decryption.
  std::int64_t bytes() const { return bytes_.load(); }

 private:
  friend class ScriptedAgent;
  static constexpr int kThreads = 2;

  // Shared by the agents of one loop. On nodes of their own each would read the block of peers, which is the same for
  // all; here one does, because thousands of reads would delay their heartbeats.
  struct Loop {
    boost::asio::io_context io{1};
    rendezvous::CoordinatorReader reader;
    std::unordered_set<std::size_t> parts;  // hashes of the parts of blocks that `reader` has
  };

  boost::asio::ssl::context tls_;
  const int port_;
  std::atomic<std::int64_t> heartbeats_{0}, started_{0}, bytes_{0};
  std::atomic<int> failing_{-1};  // the slot that the others cannot reach
  // Agent i lives on loop i % kThreads.
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::shared_ptr<class ScriptedAgent>> agents_;  // by slot
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::bench
