// The server's side of an HTTP/2 connection, for a script of a ScriptedServer. It does what a test says, also what no
// real API server does on demand.
#pragma once

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube::testing {

// Makes a server's context choose HTTP/2.
inline void offer_http2(SSL_CTX* context) {
  SSL_CTX_set_alpn_select_cb(
      context,
      [](SSL*, const unsigned char** chosen, unsigned char* size, const unsigned char* offered, unsigned count, void*) {
        static constexpr unsigned char kOurs[] = "\x02h2";
        unsigned char* found = nullptr;
        const int result = SSL_select_next_proto(&found, size, kOurs, 3, offered, count);
        *chosen = found;
        return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
      },
      nullptr);
}

class Http2Peer {
 public:
  struct Seen {
    std::int32_t stream = 0;
    std::map<std::string, std::string> headers;  // ":method", ":path", ...
    std::string body;
  };

  // `most_streams`: what it allows the client at once.
  explicit Http2Peer(Peer& peer, std::uint32_t most_streams = 100) : peer_(peer), session_(nullptr, nullptr) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &on_frame);
    nghttp2_session* session = nullptr;
    nghttp2_session_server_new(&session, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    session_ = {session, &nghttp2_session_del};
    const nghttp2_settings_entry setting{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, most_streams};
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &setting, 1);
    flush();
  }

  // The next whole request; nullopt if the client has closed.
  std::optional<Seen> next() {
    while (whole_.empty()) {
      if (!read()) return std::nullopt;
    }
    Seen seen = std::move(whole_.front());
    whole_.pop_front();
    return seen;
  }
  // Waits until the client has given the stream up, and returns the code that it gave; nullopt if it closed.
  std::optional<std::uint32_t> wait_reset(std::int32_t stream) {
    while (!resets_.contains(stream)) {
      if (!read()) return std::nullopt;
    }
    return resets_[stream];
  }
  // Reads until the client closes.
  void wait_closed() {
    while (read()) {
    }
  }

  bool answer(std::int32_t stream, int status, std::string body, const std::map<std::string, std::string>& more = {}) {
    const std::string code = std::to_string(status);
    std::vector<nghttp2_nv> headers = {header(":status", code), header("content-type", kType)};
    for (const auto& [name, value] : more) headers.push_back(header(name, value));
    answers_[stream] += body;
    const nghttp2_data_provider provider{{}, &read_body};
    nghttp2_submit_response(session_.get(), stream, headers.data(), headers.size(), &provider);
    return flush();
  }
  // An answer in pieces: begin(), send() any number of times, finish().
  bool begin(std::int32_t stream, int status = 200) {
    unfinished_.insert(stream);
    return answer(stream, status, "");
  }
  bool send(std::int32_t stream, std::string_view piece) {
    answers_[stream] += piece;
    nghttp2_session_resume_data(session_.get(), stream);
    return flush();
  }
  bool finish(std::int32_t stream) {
    unfinished_.erase(stream);
    return send(stream, "");
  }
  // Bytes of send() that the client's window has no room for.
  std::size_t held_back(std::int32_t stream) { return answers_[stream].size(); }
  bool reset(std::int32_t stream, std::uint32_t error) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, error);
    return flush();
  }
  // The connection is to end; streams after `last` are not looked at.
  bool go_away(std::int32_t last) {
    nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
    return flush();
  }

 private:
  inline static const std::string kType = "application/json";

  static nghttp2_nv header(std::string_view name, std::string_view value) {
    return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
            reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
            NGHTTP2_NV_FLAG_NONE};
  }
  static Http2Peer& self(void* user) { return *static_cast<Http2Peer*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
    self(user).partial_[frame->hd.stream_id].headers[{reinterpret_cast<const char*>(name), name_size}] =
        std::string(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data, std::size_t size,
                     void* user) {
    self(user).partial_[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    const std::int32_t id = frame->hd.stream_id;
    if (frame->hd.type == NGHTTP2_RST_STREAM) self(user).resets_[id] = frame->rst_stream.error_code;
    const bool of_request = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (of_request && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      auto whole = self(user).partial_.extract(id);
      whole.mapped().stream = id;
      self(user).whole_.push_back(std::move(whole.mapped()));
    }
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* buffer, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    std::string& body = self(user).answers_[id];
    const std::size_t size = std::min(room, body.size());
    std::memcpy(buffer, body.data(), size);
    body.erase(0, size);
    if (size == 0 && self(user).unfinished_.contains(id)) return NGHTTP2_ERR_DEFERRED;
    if (body.empty() && !self(user).unfinished_.contains(id)) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }

  bool read() {
    const std::string bytes = peer_.read_some();
    if (bytes.empty()) return false;
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (nghttp2_session_mem_recv(session_.get(), data, bytes.size()) < 0) {
      throw std::runtime_error("the client does not speak HTTP/2");
    }
    return flush();
  }
  bool flush() {
    const std::uint8_t* bytes = nullptr;
    while (true) {
      const auto size = nghttp2_session_mem_send(session_.get(), &bytes);
      if (size <= 0) return size == 0;
      if (!peer_.write({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)})) return false;
    }
  }

  Peer& peer_;
  std::unique_ptr<nghttp2_session, void (*)(nghttp2_session*)> session_;
  std::map<std::int32_t, Seen> partial_;
  std::deque<Seen> whole_;
  std::map<std::int32_t, std::uint32_t> resets_;
  std::map<std::int32_t, std::string> answers_;  // what is left to send
  std::set<std::int32_t> unfinished_;            // more will be sent
};

}  // namespace lockstep::kube::testing
