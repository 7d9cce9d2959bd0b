// A client of with_http2(), and servers that offer HTTP/2.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "operator/kube/cpprest_transport.h"
#include "operator/kube/http2_transport.h"
#include "tests/operator/kube/certificate_authority.h"
#include "tests/operator/kube/client.h"
#include "tests/operator/kube/http2_peer.h"

namespace lockstep::kube::testing {

inline Request post(std::string body = R"({"kind":"Pod"})") {
  Request request;
  request.method = "POST";
  request.target = "/api/v1/namespaces/x/pods?fieldManager=a%20b";
  request.body = std::move(body);
  request.content_type = "application/json";
  request.authorization = "Bearer secret";
  request.lane = Lane::kBulk;
  return request;
}

class Http2 : public ::testing::Test {
 protected:
  Http2() { offer_http2(context.get()); }

  ClusterAccess trusted(const ScriptedServer& server) const {
    auto access = access_to(server.url());
    access.ca_pem = ours.certificate_pem();
    return access;
  }
  static std::unique_ptr<Transport> client(const ClusterAccess& access, Http2Options options = {}) {
    auto http1 = make_cpprest_transport(access, no_environment());
    EXPECT_TRUE(http1);
    auto both = with_http2(std::move(*http1), access, no_environment(), options);
    EXPECT_TRUE(both);
    return std::move(*both);
  }
  std::unique_ptr<Transport> client(const ScriptedServer& server, Http2Options options = {}) const {
    return client(trusted(server), options);
  }
  // Answers every request with 201 and its own body.
  static void echo(Peer& peer) {
    Http2Peer http2(peer);
    while (const auto seen = http2.next()) http2.answer(seen->stream, 201, seen->body);
  }

  TestAuthority ours{"ours"};
  std::shared_ptr<SSL_CTX> context = ours.server_context("IP:127.0.0.1");
};

}  // namespace lockstep::kube::testing
