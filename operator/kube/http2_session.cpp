#include "operator/kube/http2_session.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>
#include <vector>

#include "operator/base/number.h"
#include "operator/base/version.h"
#include "operator/kube/status_error.h"

namespace lockstep::kube {
namespace {

std::string_view view_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

nghttp2_nv header(std::string_view name, std::string_view value, std::uint8_t flags = NGHTTP2_NV_FLAG_NONE) {
  // The library copies both, and does not write to them.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(), flags};
}

}  // namespace

struct Http2Session::Hooks {
  static Http2Session& self(void* user) { return *static_cast<Http2Session*>(user); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
    Stream* stream = self(user).find(frame->hd.stream_id);
    const std::string_view field = view_of(name, name_size), text = view_of(value, value_size);
    if (stream == nullptr || stream->has_head) return 0;  // trailers
    if (field == ":status") {
      stream->status = as_number<int>(text).value_or(0);
    } else if (field == "retry-after") {
      stream->retry_after_seconds = seconds_of_retry_after(text);
    }
    return 0;
  }

  static int on_data(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    // The window of the connection is for all streams, so a slow reader of one does not keep it closed.
    nghttp2_session_consume_connection(session, size);
    const Stream* stream = self(user).find(id);
    if (stream == nullptr || stream->receiver->on_data(view_of(data, size))) {
      nghttp2_session_consume_stream(session, id, size);
    }
    return 0;
  }

  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_SETTINGS) self(user).has_settings_ = true;
    Stream* stream = self(user).find(frame->hd.stream_id);
    if (stream == nullptr || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS)) return 0;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->complete = true;
    const bool interim = stream->status / 100 == 1;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream->has_head && !interim) {
      stream->has_head = true;
      stream->receiver->on_head(stream->status, stream->retry_after_seconds);
    }
    return 0;
  }

  static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    Stream* stream = self(user).find(frame->hd.stream_id);
    if (stream != nullptr && frame->hd.type == NGHTTP2_HEADERS) stream->begun = true;
    return 0;
  }

  // The server has announced the end of the connection before this request was sent.
  static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* user) {
    if (frame->hd.type == NGHTTP2_HEADERS) self(user).end(frame->hd.stream_id, End::kUnprocessed);
    return 0;
  }

  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    const Stream* stream = self(user).find(id);
    if (stream == nullptr) return 0;
    End how = End::kBroken;
    if (error == NGHTTP2_REFUSED_STREAM && !stream->has_head) {
      how = End::kUnprocessed;
    } else if (error == NGHTTP2_NO_ERROR && stream->complete && stream->has_head) {
      how = End::kWhole;
    }
    self(user).end(id, how);
    return 0;
  }

  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* buffer, std::size_t room,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    Stream* stream = self(user).find(id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;  // cancelled
    const std::string& body = stream->request->body;
    const std::size_t size = std::min(room, body.size() - stream->sent);
    std::copy_n(body.data() + stream->sent, size, buffer);
    stream->sent += size;
    if (stream->sent == body.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(size);
  }
};

Http2Session::Http2Session(std::string authority, std::string prefix)
    : authority_(std::move(authority)), prefix_(std::move(prefix)) {
  nghttp2_session_callbacks* made = nullptr;
  if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)> callbacks(
      made, &nghttp2_session_callbacks_del);
  nghttp2_session_callbacks_set_on_header_callback(made, Hooks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, Hooks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(made, Hooks::on_frame);
  nghttp2_session_callbacks_set_on_frame_send_callback(made, Hooks::on_sent);
  nghttp2_session_callbacks_set_on_frame_not_send_callback(made, Hooks::on_not_sent);
  nghttp2_session_callbacks_set_on_stream_close_callback(made, Hooks::on_close);
  nghttp2_option* option = nullptr;
  if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
  nghttp2_option_set_no_auto_window_update(option, 1);
  nghttp2_session* session = nullptr;
  const int failed = nghttp2_session_client_new2(&session, made, this, option);
  nghttp2_option_del(option);
  if (failed != 0) throw std::bad_alloc();
  session_.reset(session);
  const std::array<nghttp2_settings_entry, 1> settings{{{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}}};
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
}

Http2Session::~Http2Session() = default;

std::optional<std::int32_t> Http2Session::submit(const Request& request, Http2Receiver& receiver,
                                                 std::function<void(End)> ended) {
  if (!takes_more()) return std::nullopt;
  const std::string path = prefix_ + request.target, length = std::to_string(request.body.size());
  const std::string agent = "lockstep/" + version();
  std::vector<nghttp2_nv> headers = {header(":method", request.method), header(":scheme", "https"),
                                     header(":authority", authority_),  header(":path", path),
                                     header("accept", request.accept),  header("user-agent", agent)};
  if (!request.authorization.empty()) {
    headers.push_back(header("authorization", request.authorization, NGHTTP2_NV_FLAG_NO_INDEX));
  }
  nghttp2_data_provider body{{}, Hooks::read_body};
  if (!request.body.empty()) {
    headers.push_back(header("content-type", request.content_type));
    headers.push_back(header("content-length", length));
  }
  const std::int32_t id = nghttp2_submit_request(session_.get(), nullptr, headers.data(), headers.size(),
                                                 request.body.empty() ? nullptr : &body, nullptr);
  if (id < 0) return std::nullopt;
  Stream& stream = streams_[id];
  stream.request = &request;
  stream.receiver = &receiver;
  stream.ended = std::move(ended);
  return id;
}

void Http2Session::cancel(std::int32_t stream) {
  if (streams_.erase(stream) == 0) return;
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
}

void Http2Session::consumed(std::int32_t stream, std::size_t bytes) {
  nghttp2_session_consume_stream(session_.get(), stream, bytes);
}

bool Http2Session::receive(std::string_view bytes) {
  const auto read =
      nghttp2_session_mem_recv(session_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (read < 0) return false;
  return !is_over();
}

bool Http2Session::is_over() const {
  return nghttp2_session_want_read(session_.get()) == 0 && nghttp2_session_want_write(session_.get()) == 0;
}

bool Http2Session::take_output(std::string& output, std::size_t most) {
  while (output.size() < most) {
    const std::uint8_t* bytes = nullptr;
    const auto size = nghttp2_session_mem_send(session_.get(), &bytes);
    if (size <= 0) return size == 0;
    output.append(view_of(bytes, static_cast<std::size_t>(size)));
  }
  return true;
}

void Http2Session::give_up() {
  while (!streams_.empty()) {
    const auto& [id, stream] = *streams_.begin();
    end(id, stream.begun ? End::kBroken : End::kUnprocessed);
  }
}

std::optional<std::size_t> Http2Session::most_streams() const {
  if (!has_settings_) return std::nullopt;
  return nghttp2_session_get_remote_settings(session_.get(), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool Http2Session::takes_more() const {
  return nghttp2_session_check_request_allowed(session_.get()) != 0;
}

Http2Session::Stream* Http2Session::find(std::int32_t id) {
  const auto found = streams_.find(id);
  return found == streams_.end() ? nullptr : &found->second;
}

void Http2Session::end(std::int32_t id, End how) {
  auto ended = streams_.extract(id);
  if (!ended.empty()) ended.mapped().ended(how);
}

}  // namespace lockstep::kube
