// The API server of a large cluster, over TLS. It is a local::MemoryApi for everything that an operator writes, and
// beside it nodes and pods of others in any number. Of these nothing is stored but their texts' forms. Lists come in
// pages, watches as lines, as a real server sends them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operator/kube/api.h"
#include "operator/local/memory_api.h"
#include "tests/bench/operator_size/request_target.h"
#include "tests/operator/kube/certificate_authority.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::bench {

class ScriptedApiServer {
 public:
  // `objects` outlives this.
  explicit ScriptedApiServer(local::MemoryApi& objects);
  // Ends all connections.
  ~ScriptedApiServer();
  ScriptedApiServer(const ScriptedApiServer&) = delete;
  ScriptedApiServer& operator=(const ScriptedApiServer&) = delete;

  std::string url() const { return server_->url(); }
  std::string ca_pem() const { return authority_.certificate_pem(); }

  // The cluster has so many nodes and pods of others from here on, and clients list again.
  void resize(int nodes, int pods);
  // Every watch ends with 410 Gone, as after a restart of etcd: clients list everything again.
  void forget_history();
  // Each kubelet reports, and each pod of others is replaced on another node: 20,000 of either at most. The last events
  // add a node and a pod, so that a client that counts them has read the rest. Blocks until clients have taken it.
  void storm();

  int nodes() const;
  int pods_of_others() const;

 private:
  using Peer = kube::testing::Peer;
  struct Stream;

  void serve(Peer& peer);
  bool answer(Peer& peer, const kube::testing::SeenRequest& request, const RequestTarget& target);
  bool list(Peer& peer, const RequestTarget& target);
  void watch(Peer& peer, const RequestTarget& target);
  // To every watch of that kind that selects nothing.
  void tell_all(const kube::Resource& resource, const char* type,
                const std::function<std::string(const std::string&)>& text);
  std::string pod_of_others(int pod, const std::string& version) const;

  local::MemoryApi& objects_;
  const kube::testing::TestAuthority authority_;
  const std::shared_ptr<SSL_CTX> tls_;

  std::atomic<std::int64_t> beats_ = 0;
  mutable std::mutex mutex_;  // protects what follows
  int nodes_ = 0;
  std::vector<int> lives_;  // of the pods of others
  std::list<Stream*> streams_;
  std::uint64_t oldest_ = 0;  // watches from older versions end with 410

  std::unique_ptr<kube::testing::ScriptedServer> server_;  // last: its threads use all of the above
};

}  // namespace lockstep::bench
