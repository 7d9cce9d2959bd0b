// Sends bulk requests and watches over a few HTTP/2 connections, as streams beside each other. Over HTTP/1.1 each needs
// a connection of its own, with a TLS session and its buffers. See docs/adr/0045-http2.md.
#pragma once

#include <memory>

#include "operator/base/clock.h"
#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace lockstep::kube {

struct Http2Options {
  Duration rest = std::chrono::seconds(30);         // a connection without requests is closed after this
  Duration http1_again = std::chrono::minutes(10);  // a server that offers no HTTP/2 is asked again after this
};

// Adds HTTP/2 to `rest`, which gets the requests of the other lanes, and all requests while the server does not offer
// HTTP/2. Returns `rest` itself for a server behind a proxy or without TLS. kInvalid: the server's port
// or the proxy cannot be used. All calls must have returned before it is destroyed.
Result<std::unique_ptr<Transport>> with_http2(std::unique_ptr<Transport> rest, const ClusterAccess& access,
                                              const Environment& environment, Http2Options options = {});

}  // namespace lockstep::kube
