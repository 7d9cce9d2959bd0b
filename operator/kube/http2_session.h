// The client's side of an HTTP/2 connection (RFC 9113) without a socket: bytes in, bytes out. libnghttp2 knows the
// protocol. Not thread-safe.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "operator/kube/transport.h"

namespace lockstep::kube {

// What becomes of one request, in this order: the head, pieces of the body, the end.
class Http2Receiver {
 public:
  virtual ~Http2Receiver() = default;

  virtual void on_head(int status, double retry_after_seconds) = 0;
  // True: more may come. False: what the server sends ahead stays bounded until consumed() is called for the bytes of
  // this piece.
  virtual bool on_data(std::string_view piece) = 0;
};

class Http2Session {
 public:
  enum class End {
    kWhole,        // the answer has come, whatever its status
    kUnprocessed,  // the server has not looked at the request, which may be sent again; nothing was received
    kBroken,       // there is no whole answer; the server may have acted
  };

  // `authority` is that of the server's URL: "10.0.0.1:443". `prefix` goes before every target.
  Http2Session(std::string authority, std::string prefix);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Begins a request and returns the number of its stream. `request` and `receiver` stay where they are until `ended`
  // is called, once, by receive(), take_output() or give_up(), or until cancel(). nullopt: this connection takes no
  // more requests.
  std::optional<std::int32_t> submit(const Request& request, Http2Receiver& receiver, std::function<void(End)> ended);
  // Forgets the request and tells the server; `ended` is not called.
  void cancel(std::int32_t stream);
  // Lets the server send so many bytes more, which on_data() refused.
  void consumed(std::int32_t stream, std::size_t bytes);

  // False: the peer does not speak HTTP/2, or the session is over. The connection is to be closed.
  bool receive(std::string_view bytes);
  // Appends bytes to send until there are `most` or there are none. False: it cannot go on, for want of memory.
  bool take_output(std::string& output, std::size_t most);
  // The connection is gone: ends every request, those that were never sent as kUnprocessed.
  void give_up();

  // Requests that the server works on at once; further ones wait here. nullopt: it has not said so yet.
  std::optional<std::size_t> most_streams() const;
  // Nothing is left to receive or to send. The connection is to be closed.
  bool is_over() const;
  // submit() may succeed.
  bool takes_more() const;

 private:
  struct Stream {
    const Request* request = nullptr;
    Http2Receiver* receiver = nullptr;
    std::function<void(End)> ended;
    std::size_t sent = 0;  // bytes of the body
    bool begun = false;    // its headers are among the output
    int status = 0;
    double retry_after_seconds = 0;
    bool has_head = false;
    bool complete = false;
  };
  struct Hooks;  // libnghttp2's callbacks
  using Session = std::unique_ptr<nghttp2_session, decltype(&nghttp2_session_del)>;

  Stream* find(std::int32_t id);
  void end(std::int32_t id, End how);

  const std::string authority_, prefix_;
  std::map<std::int32_t, Stream> streams_;
  bool has_settings_ = false;  // of the server
  Session session_{nullptr, &nghttp2_session_del};
};

}  // namespace lockstep::kube
