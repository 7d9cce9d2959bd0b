// Watches and logs over HTTP/2, against a peer that does what a test says.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/operator/kube/http2_fixture.h"

namespace lockstep::kube::http2_stream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Http2Peer;
using testing::Peer;
using testing::ScriptedServer;

Request watch() {
  Request request;
  request.target = "/api/v1/pods?watch=1";
  request.lane = Lane::kWatch;
  return request;
}

class Http2Stream : public testing::Http2 {
 protected:
  struct Streamed {
    Result<Response> response = Response{};
    std::string text;
  };
  static Streamed stream(Transport& transport, const Request& request = watch(), std::stop_token stop = {}) {
    Streamed streamed;
    streamed.response = transport.stream(
        request,
        [&streamed](std::string_view piece) {
          streamed.text += piece;
          return true;
        },
        std::move(stop));
    return streamed;
  }
};

TEST_F(Http2Stream, pieces_come_as_they_are_sent_and_the_end_is_success) {
  std::atomic<int> seen = 0;
  ScriptedServer server(
      [&seen](Peer& peer) {
        Http2Peer http2(peer);
        const auto request = http2.next();
        http2.begin(request->stream);
        http2.send(request->stream, "one ");
        seen.wait(0);  // nothing waits for the end
        http2.send(request->stream, "two");
        http2.finish(request->stream);
        http2.wait_closed();
      },
      context.get());
  std::string text;
  const auto transport = client(server);
  const auto response = transport->stream(watch(),
                                          [&](std::string_view piece) {
                                            text += piece;
                                            ++seen;
                                            seen.notify_all();
                                            return true;
                                          },
                                          {});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(text, "one two");
}

TEST_F(Http2Stream, a_refusal_comes_as_response_and_not_as_data) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto request = http2.next()) http2.answer(request->stream, 410, "gone");
      },
      context.get());
  const auto streamed = stream(*client(server));
  ASSERT_TRUE(streamed.response) << streamed.response.error().message;
  EXPECT_EQ(streamed.response->status, 410);
  EXPECT_EQ(streamed.response->body, "gone");
  EXPECT_EQ(streamed.text, "");
}

TEST_F(Http2Stream, a_server_that_breaks_off_is_unavailable) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        const auto request = http2.next();
        http2.begin(request->stream);
        http2.send(request->stream, "one");
        if (peer.number() == 0) http2.reset(request->stream, NGHTTP2_INTERNAL_ERROR);
      },
      context.get());
  for (int i = 0; i < 2; ++i) {
    const auto streamed = stream(*client(server));
    ASSERT_FALSE(streamed.response);
    EXPECT_EQ(streamed.response.error().code, ErrorCode::kUnavailable) << streamed.response.error().message;
  }
}

TEST_F(Http2Stream, silence_before_and_after_the_headers_is_given_up) {
  for (const bool headers : {false, true}) {
    ScriptedServer server(
        [headers](Peer& peer) {
          Http2Peer http2(peer);
          const auto request = http2.next();
          if (headers) http2.begin(request->stream);
          http2.wait_reset(request->stream);
        },
        context.get());
    Request request = watch();
    request.deadline = headers ? seconds(20) : milliseconds(200);
    request.idle_deadline = headers ? milliseconds(200) : seconds(20);
    const auto streamed = stream(*client(server), request);
    ASSERT_FALSE(streamed.response);
    EXPECT_EQ(streamed.response.error().code, ErrorCode::kDeadlineExceeded);
    EXPECT_NE(streamed.response.error().message.find(headers ? "stopped sending" : "did not answer"), std::string::npos)
        << streamed.response.error().message;
  }
}

TEST_F(Http2Stream, ends_at_once_on_stop_before_and_after_the_headers) {
  for (const bool headers : {false, true}) {
    std::stop_source stop;
    std::atomic<bool> told = false, done = false;
    ScriptedServer server(
        [&](Peer& peer) {
          Http2Peer http2(peer);
          const auto request = http2.next();
          if (headers) http2.begin(request->stream);
          stop.request_stop();
          told = http2.wait_reset(request->stream) == NGHTTP2_CANCEL;
          done = true;
          done.notify_all();
          http2.wait_closed();
        },
        context.get());
    const auto transport = client(server);
    const auto start = steady_clock::now();
    const auto streamed = stream(*transport, watch(), stop.get_token());
    ASSERT_FALSE(streamed.response);
    EXPECT_EQ(streamed.response.error().code, ErrorCode::kCancelled);
    EXPECT_LT(steady_clock::now() - start, seconds(5));
    done.wait(false);
    EXPECT_TRUE(told);
  }
}

TEST_F(Http2Stream, a_consumer_that_has_enough_ends_its_stream_alone) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto request = http2.next()) {
          http2.begin(request->stream);
          http2.send(request->stream, "one");
          if (!http2.wait_reset(request->stream)) return;
        }
      },
      context.get());
  const auto transport = client(server);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(transport->stream(watch(), [](std::string_view) { return false; }, {}));
  }
  EXPECT_EQ(server.connections(), 1);
}

// What a slow reader has not taken stays at the server, and other streams of the connection go on. The server measures
// when the last request comes: another stream was received whole by then.
TEST_F(Http2Stream, a_slow_consumer_slows_its_own_stream_down_alone) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  std::atomic<std::size_t> held_back = 0;
  ScriptedServer server(
      [&held_back](Peer& peer) {
        Http2Peer http2(peer);
        const auto slow = http2.next()->stream;
        http2.begin(slow);
        http2.send(slow, std::string(kBytes, 's'));
        const auto quick = http2.next();  // reads window updates, too
        http2.answer(quick->stream, 200, std::string(kBytes, 'q'));
        const auto last = http2.next();
        held_back = http2.held_back(slow);
        http2.answer(last->stream, 200, "");
        http2.finish(slow);
        http2.wait_closed();
      },
      context.get());
  const auto transport = client(server);
  std::atomic<bool> blocked = false, go_on = false;
  std::size_t bytes = 0;
  std::thread slow([&] {
    const auto response = transport->stream(watch(),
                                            [&](std::string_view piece) {
                                              bytes += piece.size();
                                              blocked = true;
                                              blocked.notify_all();
                                              go_on.wait(false);
                                              return true;
                                            },
                                            {});
    EXPECT_TRUE(response);
  });
  blocked.wait(false);
  const auto quick = stream(*transport), last = stream(*transport);
  go_on = true;
  go_on.notify_all();
  slow.join();
  ASSERT_TRUE(quick.response) << quick.response.error().message;
  EXPECT_EQ(quick.text.size(), kBytes);
  EXPECT_TRUE(last.response);
  EXPECT_GE(held_back, kBytes - (std::size_t{256} << 10));
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(Http2Stream, watches_and_bulk_requests_have_connections_of_their_own) {
  ScriptedServer server(
      [](Peer& peer) {
        Http2Peer http2(peer);
        while (const auto request = http2.next()) http2.answer(request->stream, 200, "{}");
      },
      context.get());
  const auto transport = client(server);
  EXPECT_TRUE(stream(*transport).response);
  EXPECT_TRUE(transport->call(testing::post()));
  EXPECT_TRUE(stream(*transport).response);
  EXPECT_EQ(server.connections(), 2);
}

TEST_F(Http2Stream, a_server_without_it_streams_over_http_1) {
  const auto plain = ours.server_context("IP:127.0.0.1");
  ScriptedServer server(
      [](Peer& peer) {
        while (peer.read_request()) {
          peer.begin_chunks();
          peer.chunk("one");
          peer.end_chunks();
        }
      },
      plain.get());
  const auto streamed = stream(*client(server));
  ASSERT_TRUE(streamed.response) << streamed.response.error().message;
  EXPECT_EQ(streamed.text, "one");
}

}  // namespace
}  // namespace lockstep::kube::http2_stream
