// Streams of the real transport, watches and logs, against a peer that plays given bytes: failures of networks and of
// dying servers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "tests/operator/kube/client.h"
#include "tests/operator/kube/scripted_server.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::access_to;
using testing::Client;
using testing::Peer;
using testing::ScriptedServer;
using testing::SeenRequest;

std::string event(const std::string& type, const std::string& name, int version) {
  return fmt::format(R"({{"type":"{}","object":{{"kind":"Pod","metadata":{{"name":"{}","resourceVersion":"{}"}}}}}})",
                     type, name, version) +
         "\n";
}

struct Watched {
  Status ended;
  std::vector<std::string> names;
};
Watched watch(Api& api, std::stop_token stop = {}) {
  Watched watched;
  watched.ended = api.watch(
      kPods, {.resource_version = "1"},
      [&](WatchEvent seen) {
        watched.names.push_back(seen.object["metadata"]["name"]);
        return true;
      },
      std::move(stop));
  return watched;
}

// A server whose every connection sends `play` after a watch request.
ScriptedServer watch_server(std::function<void(Peer&)> play) {
  return ScriptedServer([play = std::move(play)](Peer& peer) {
    if (peer.read_request()) play(peer);
  });
}

TEST(Watch, a_chunk_is_neither_a_line_nor_an_event) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    const std::string first = event("ADDED", "a", 2);
    peer.chunk(first.substr(0, 10));
    peer.chunk(first.substr(10, 30));
    peer.chunk(first.substr(40));
    peer.chunk(event("MODIFIED", "b", 3) + event("DELETED", "c", 4));
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  const auto watched = watch(*client.api);
  EXPECT_TRUE(watched.ended) << watched.ended.error().message;
  EXPECT_EQ(watched.names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Watch, asks_for_bookmarks_and_starts_after_the_version) {
  std::mutex mutex;
  std::string target;
  auto server = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      target = request->target;
    }
    peer.begin_chunks();
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  EXPECT_TRUE(client.api->watch(
      kPods, {.name_space = "x", .label_selector = "a in (b,c)", .resource_version = "77", .timeout_seconds = 301},
      [](const WatchEvent&) { return true; }, {}));
  const std::lock_guard guard(mutex);
  EXPECT_EQ(target,
            "/api/v1/namespaces/x/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=301&resourceVersion=77&"
            "labelSelector=a%20in%20%28b%2Cc%29");
}

TEST(Watch, a_peer_that_falls_silent_is_given_up_after_the_idle_deadline) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.wait_closed();
  });
  Client client(access_to(server.url()));
  const auto start = steady_clock::now();
  const auto watched = watch(*client.api);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

TEST(Watch, a_peer_that_never_answers_is_given_up_after_the_call_deadline) {
  auto server = watch_server([](Peer& peer) { peer.wait_closed(); });
  auto options = Client::quick();
  options.call_deadline = milliseconds(200);
  Client client(access_to(server.url()), options);
  const auto watched = watch(*client.api);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().code, ErrorCode::kDeadlineExceeded) << watched.ended.error().message;
}

TEST(Watch, lines_that_are_no_events_are_counted_and_skipped) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk("this is no JSON\n");
    peer.chunk("{\"type\":\"ADDED\"}\n");
    peer.chunk("{\"type\":\"SURPRISE\",\"object\":{\"metadata\":{}}}\n");
    peer.chunk("[1,2,3]\n\n");
    peer.chunk(std::string(1000, '[') + "\n");
    peer.chunk(event("ADDED", "a", 2));
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  const auto watched = watch(*client.api);
  EXPECT_TRUE(watched.ended) << watched.ended.error().message;
  EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  EXPECT_NE(client.metrics.text().find("lockstep_watch_undecodable_total{resource=\"pods\"} 5"), std::string::npos)
      << client.metrics.text();
}

TEST(Watch, gone_comes_as_a_status_code_or_as_an_event) {
  const std::string status = R"({"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"})";
  auto refused = watch_server([&](Peer& peer) { peer.answer(410, status); });
  auto in_stream = watch_server([&](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.chunk("{\"type\":\"ERROR\",\"object\":" + status + "}\n");
    peer.wait_closed();
  });
  for (ScriptedServer* server : {&refused, &in_stream}) {
    Client client(access_to(server->url()));
    const auto watched = watch(*client.api);
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kGone);
    EXPECT_EQ(watched.ended.error().message, "too old resource version");
  }
}

TEST(Watch, a_connection_that_dies_inside_a_chunk_fails_and_a_clean_end_does_not) {
  auto dying = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    peer.write("100\r\nhalf a chu");
  });
  auto reset = watch_server([](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2));
    std::this_thread::sleep_for(milliseconds(50));  // a reset overtakes bytes that were not read
    peer.reset();
  });
  for (ScriptedServer* server : {&dying, &reset}) {
    Client client(access_to(server->url()));
    const auto watched = watch(*client.api);
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kUnavailable) << watched.ended.error().message;
    EXPECT_EQ(watched.names, std::vector<std::string>{"a"});
  }
}

TEST(Watch, a_chunk_of_impossible_size_is_a_failure_and_nothing_worse) {
  for (const char* size : {"-1\r\n", "-7fffffff\r\n", "zz\r\n", "7fffffffffffffff\r\n"}) {
    auto server = watch_server([size](Peer& peer) {
      peer.begin_chunks();
      peer.chunk(event("ADDED", "a", 2));
      peer.write(std::string(size) + "x\r\n");
      peer.wait_closed();
    });
    Client client(access_to(server.url()));
    const auto watched = watch(*client.api);
    EXPECT_FALSE(watched.ended) << size;
    EXPECT_EQ(watched.names, std::vector<std::string>{"a"}) << size;
  }
}

TEST(Watch, a_slow_consumer_slows_the_server_down) {
  auto server = watch_server([](Peer& peer) {
    peer.begin_chunks();
    const std::string big = event("ADDED", std::string(60'000, 'n'), 2);
    for (int i = 0; i < 4000 && peer.chunk(big); ++i) {
    }
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  int seen = 0;
  const Status ended = client.api->watch(kPods, {},
                                         [&](const WatchEvent&) {
                                           if (++seen > 1) return false;
                                           long before = -1;
                                           for (long now = server.written(); now != before;
                                                now = server.written()) {  // until the server is stuck
                                             before = now;
                                             std::this_thread::sleep_for(milliseconds(100));  // to fill a buffer in
                                           }
                                           return true;
                                         },
                                         {});
  EXPECT_TRUE(ended) << ended.error().message;
  // What the kernel's socket buffers hold, out of 240 MB.
  EXPECT_LT(server.written(), 32L << 20);
}

TEST(Watch, ends_at_once_on_stop_before_and_after_the_headers) {
  for (const bool headers : {false, true}) {
    auto server = watch_server([headers](Peer& peer) {
      if (headers) peer.begin_chunks();
      peer.wait_closed();
    });
    auto options = Client::quick();
    options.watch_idle_deadline = seconds(30);
    Client client(access_to(server.url()), options);
    std::stop_source stop;
    std::jthread stopper([&] {
      std::this_thread::sleep_for(milliseconds(100));  // for the client to wait by then, which no event shows
      stop.request_stop();
    });
    const auto start = steady_clock::now();
    const auto watched = watch(*client.api, stop.get_token());
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().code, ErrorCode::kCancelled);
    EXPECT_LT(steady_clock::now() - start, seconds(15));
  }
}

TEST(Watch, a_consumer_that_has_enough_closes_the_connection) {
  std::promise<bool> closed;
  auto server = watch_server([&](Peer& peer) {
    peer.begin_chunks();
    peer.chunk(event("ADDED", "a", 2) + event("ADDED", "b", 3));
    closed.set_value(peer.wait_closed(seconds(5)));
  });
  Client client(access_to(server.url()));
  int seen = 0;
  EXPECT_TRUE(client.api->watch(kPods, {}, [&](const WatchEvent&) { return ++seen < 1; }, {}));
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(closed.get_future().get());
}

TEST(Watch, many_blocked_consumers_hold_up_neither_each_other_nor_calls) {
  auto server = ScriptedServer([](Peer& peer) {
    while (auto request = peer.read_request()) {
      if (request->target.find("watch=1") == std::string::npos) {
        peer.answer(200, R"({"metadata":{"name":"x"}})");
        continue;
      }
      peer.begin_chunks();
      for (int i = 0; i < 100; ++i) peer.chunk(event("ADDED", "a", 2));
      peer.wait_closed();
    }
  });
  Client client(access_to(server.url()));
  std::atomic<int> inside = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  std::vector<std::jthread> watchers;
  for (int i = 0; i < 12; ++i) {
    watchers.emplace_back([&] {
      static_cast<void>(client.api->watch(kPods, {},
                                          [&](const WatchEvent&) {
                                            ++inside;
                                            std::unique_lock lock(mutex);
                                            changed.wait_for(lock, seconds(10), [&] { return go; });
                                            return false;
                                          },
                                          {}));
    });
  }
  for (int i = 0; i < 500 && inside < 12; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(inside, 12);
  const auto read = client.api->get(kPods, "x", "x");
  EXPECT_TRUE(read) << read.error().message;
  const std::lock_guard guard(mutex);
  go = true;
  changed.notify_all();
}

TEST(Log, comes_as_it_is_written) {
  std::mutex mutex;
  std::string target;
  auto server = ScriptedServer([&](Peer& peer) {
    if (auto request = peer.read_request()) {
      const std::lock_guard guard(mutex);
      target = request->target;
    }
    peer.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n");
    peer.chunk("one\ntwo");
    peer.chunk("\nthree\n");
    peer.end_chunks();
  });
  Client client(access_to(server.url()));
  std::string text;
  const Status ended = client.api->read_log("x", "p", {.container = "trainer", .follow = true, .tail_lines = 10},
                                            [&](std::string_view piece) {
                                              text += piece;
                                              return true;
                                            },
                                            {});
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(text, "one\ntwo\nthree\n");
  const std::lock_guard guard(mutex);
  EXPECT_EQ(target, "/api/v1/namespaces/x/pods/p/log?container=trainer&follow=true&tailLines=10");
}

}  // namespace
}  // namespace lockstep::kube
