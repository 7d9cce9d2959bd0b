// The server against scripted clients over TLS on the loopback; whole jobs with real agents are in tests/trainer/agent.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "operator/rendezvous/coordinator.h"
#include "operator/rendezvous/protocol.h"
#include "tests/operator/rendezvous/fakes.h"

namespace lockstep::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// `window`: bytes that its kernel takes for it unread; 0: as many as usual.
int dial(const std::string& address, int window = 0) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(static_cast<std::uint16_t>(port));
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (window > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
  const timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target), 0);
  return fd;
}

// A blocking TLS client that speaks frames.
class Client {
 public:
  Client(const std::string& address, const std::string& ca, const std::string& name = kCoordinatorServerName,
         int window = 0)
      : fd_(dial(address, window)), context_(SSL_CTX_new(TLS_client_method())) {
    BIO* text = BIO_new_mem_buf(ca.data(), static_cast<int>(ca.size()));
    while (X509* authority = PEM_read_bio_X509(text, nullptr, nullptr, nullptr)) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), authority);
      X509_free(authority);
    }
    BIO_free(text);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    SSL_set1_host(ssl_, name.c_str());
    connected_ = SSL_connect(ssl_) == 1;
    ERR_clear_error();
  }
  ~Client() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ::close(fd_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(ssl_); }
  void send_raw(const std::string& bytes) { SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())); }
  void send(const AgentToCoordinator& message) { send_raw(*encode_frame(message)); }
  // The next message of type M, skipping others; empty when the connection ends.
  template <typename M>
  std::optional<M> next() {
    while (true) {
      char buffer[4096];
      auto frame = reader_.next();
      while (frame && !*frame) {
        const int length = SSL_read(ssl_, buffer, sizeof buffer);
        if (length <= 0) return std::nullopt;
        reader_.feed({buffer, static_cast<std::size_t>(length)});
        frame = reader_.next();
      }
      const auto message = messages_.decode(**frame);
      EXPECT_TRUE(message) << message.error().message;
      if (!*message) continue;  // a part of the peers
      if (const auto* wanted = std::get_if<M>(&**message)) return *wanted;
    }
  }
  bool closed() { return !next<Unknown>(); }

 private:
  int fd_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  FrameReader reader_;
  CoordinatorReader messages_;
};

class CoordinatorServerTest : public testing::Test {
 protected:
  KeyPair authority = *make_authority();
  KeyPair serving = *issue_serving_certificate(authority);
  MemoryStore store;
  NameAuthenticator authenticator;
  MemberAuthenticator* asked = &authenticator;
  std::mutex mutex;
  std::condition_variable changed;
  int changes = 0;
  std::unique_ptr<Coordinator> coordinator;

  void SetUp() override { start(); }
  void start(std::int64_t term = 1, CoordinatorOptions options = {}) {
    options.listen_address = "127.0.0.1";
    options.certificate_pem = serving.certificate_pem;
    options.private_key_pem = serving.private_key_pem;
    options.term = term;
    auto started = start_coordinator(options, store, *asked, SystemClock::instance(),
                                     [this](const std::string&, const std::string&) {
                                       const std::lock_guard guard(mutex);
                                       ++changes;
                                       changed.notify_all();
                                     });
    ASSERT_TRUE(started) << started.error().message;
    coordinator = std::move(*started);
  }
  // Notified by on_change; a view that only progressed is looked at twice a second as well.
  template <typename Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex);
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const auto view = coordinator->view("uid");
      if (view && condition(*view)) return true;
      changed.wait_for(lock, milliseconds(500));
    }
    return false;
  }
  JobPlan plan() const {
    JobPlan made;
    made.name_space = "ns";
    made.name = "a";
    made.uid = "uid";
    made.slots = 1;
    made.members = {{0, 1, "a-0", "u0", ""}};
    return made;
  }
  Hello hello() const {
    Hello made;
    made.name_space = "ns";
    made.pod_name = "a-0";
    made.pod_uid = "u0";
    made.incarnation = 1;
    made.token = "token-of-a-0";
    made.session = "s";
    made.phase = MemberPhase::kWarm;  // its processes have loaded
    made.regroups = true;
    return made;
  }
  bool a_member_can_join() {
    Client client(coordinator->address(), authority.certificate_pem);
    client.send(hello());
    return client.next<Welcome>().has_value();
  }
};

TEST_F(CoordinatorServerTest, a_member_joins_and_is_started) {
  coordinator->set_job(plan());
  ASSERT_TRUE(wait_for([](const JobView& view) { return view.phase == Phase::kWaiting; }));
  Client client(coordinator->address(), authority.certificate_pem);
  EXPECT_EQ(client.version(), "TLSv1.3");
  client.send(hello());
  EXPECT_EQ(client.next<Welcome>()->term, 1);
  const auto propose = client.next<Propose>();
  ASSERT_TRUE(propose);
  Ready ready;
  ready.id = propose->id;
  ready.addresses = {"127.0.0.1:1"};
  ready.host = "127.0.0.1";
  ready.master_port = 20'000;
  client.send(ready);
  const auto go = client.next<Go>();
  ASSERT_TRUE(go);
  EXPECT_EQ(go->key.size(), 64U);
  EXPECT_EQ(store.record("uid").generation, 1);
  client.send(Up{1});
  EXPECT_TRUE(wait_for([](const JobView& view) { return view.phase == Phase::kUp; }));
}

TEST_F(CoordinatorServerTest, a_new_certificate_serves_new_connections_beside_old_ones) {
  const KeyPair next = *make_authority();
  const std::string old_ca = authority.certificate_pem, both = old_ca + next.certificate_pem;
  coordinator->set_job(plan());
  ASSERT_TRUE(wait_for([](const JobView& view) { return view.phase == Phase::kWaiting; }));
  Client member(coordinator->address(), both);
  member.send(hello());
  ASSERT_TRUE(member.next<Welcome>());
  const auto propose = member.next<Propose>();
  ASSERT_TRUE(propose);

  EXPECT_FALSE(coordinator->use_certificate({next.certificate_pem, authority.private_key_pem}));
  EXPECT_TRUE(Client(coordinator->address(), old_ca).connected());
  ASSERT_TRUE(coordinator->use_certificate(*issue_serving_certificate(next)));
  EXPECT_FALSE(Client(coordinator->address(), old_ca).connected());
  EXPECT_TRUE(Client(coordinator->address(), next.certificate_pem).connected());
  EXPECT_TRUE(Client(coordinator->address(), both).connected());

  Ready ready;
  ready.id = propose->id;
  ready.addresses = {"127.0.0.1:1"};
  ready.host = "127.0.0.1";
  ready.master_port = 20'000;
  member.send(ready);
  EXPECT_TRUE(member.next<Go>());
}

// Views of so many members are made with rests between them; the last word of a burst is not left out.
TEST_F(CoordinatorServerTest, a_burst_of_joiners_is_soon_seen_whole) {
  JobPlan large = plan();
  large.slots = 4096;
  large.members.clear();
  for (int slot = 0; slot < large.slots; ++slot) {
    large.members.push_back({slot, 1, fmt::format("a-{}", slot), fmt::format("u{}", slot), ""});
  }
  coordinator->set_job(large);
  std::vector<std::unique_ptr<Client>> clients;
  for (int slot = 0; slot < 5; ++slot) {
    clients.push_back(std::make_unique<Client>(coordinator->address(), authority.certificate_pem));
  }
  for (int slot = 0; slot < 5; ++slot) {
    Hello joining = hello();
    joining.slot = slot;
    joining.pod_name = fmt::format("a-{}", slot);
    joining.pod_uid = fmt::format("u{}", slot);
    joining.token = "token-of-" + joining.pod_name;
    clients[static_cast<std::size_t>(slot)]->send(joining);
  }
  EXPECT_TRUE(wait_for([](const JobView& view) {
    return std::count_if(view.members.begin(), view.members.end(), [](const auto& one) { return one.connected; }) == 5;
  }));
}

// Members of so many ranks that the peers are more than a socket holds.
class LargeGangTest : public CoordinatorServerTest {
 protected:
  static constexpr int kMembers = 12;
  static constexpr int kRanks = static_cast<int>(kMaxRanksPerMember);
  std::vector<std::unique_ptr<Client>> clients;

  std::string pod(int slot) const { return fmt::format("a-{}", slot); }
  void join_all(const std::function<int(int)>& protocol_of, int window_of_last = 0) {
    JobPlan large = plan();
    large.slots = kMembers;
    large.procs_per_node = kRanks;
    large.members.clear();
    for (int slot = 0; slot < kMembers; ++slot)
      large.members.push_back({slot, 1, pod(slot), fmt::format("u{}", slot), ""});
    coordinator->set_job(large);
    ASSERT_TRUE(wait_for([](const JobView&) { return true; }));
    for (int slot = 0; slot < kMembers; ++slot) {
      clients.push_back(std::make_unique<Client>(coordinator->address(), authority.certificate_pem,
                                                 kCoordinatorServerName, slot + 1 == kMembers ? window_of_last : 0));
      Hello made = hello();
      made.protocol = protocol_of(slot);
      made.slot = slot;
      made.pod_name = pod(slot);
      made.pod_uid = fmt::format("u{}", slot);
      made.token = "token-of-" + pod(slot);
      clients.back()->send(made);
      ASSERT_TRUE(clients.back()->next<Welcome>());
    }
    for (int slot = 0; slot < kMembers; ++slot) {
      const auto propose = clients[static_cast<std::size_t>(slot)]->next<Propose>();
      ASSERT_TRUE(propose);
      Ready ready;
      ready.id = propose->id;
      for (int i = 0; i < kRanks; ++i)
        ready.addresses.push_back(fmt::format("[2001:db8:1234:5678:9abc:def0:1234:{:x}]:{}", slot, 20'000 + i));
      ready.host = "10.0.0.1";
      clients[static_cast<std::size_t>(slot)]->send(ready);
    }
  }
};

TEST_F(LargeGangTest, more_peers_than_a_frame_holds_reach_every_member) {
  join_all([](int) { return 2; });
  for (const auto& client : clients) {
    const auto go = client->next<Go>();
    ASSERT_TRUE(go);
    EXPECT_EQ(go->peers->ranks(), static_cast<std::size_t>(kMembers * kRanks));
  }
}

TEST_F(LargeGangTest, an_agent_that_does_not_read_holds_nobody_up_and_is_closed) {
  CoordinatorOptions options;
  options.read_within = seconds(3);
  coordinator.reset();
  start(1, options);
  join_all([](int) { return 2; }, 4096);
  std::vector<std::future<bool>> started;
  for (int slot = 0; slot + 1 < kMembers; ++slot) {
    Client* const client = clients[static_cast<std::size_t>(slot)].get();
    started.push_back(std::async(std::launch::async, [client] { return client->next<Go>().has_value(); }));
  }
  for (auto& each : started) EXPECT_TRUE(each.get());
  EXPECT_TRUE(
      wait_for([](const JobView& view) { return !view.members.back().connected && view.members.front().connected; }));
  EXPECT_FALSE(clients.back()->next<Go>());
}

// A gang that runs, and looks for the next leader.
class FailOverTest : public CoordinatorServerTest {
 protected:
  static constexpr int kPods = 32;
  SlowAuthenticator slow{milliseconds(300)};
  std::vector<std::unique_ptr<Client>> clients;

  ~FailOverTest() override {
    slow.go_on();
    coordinator.reset();
  }
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // of a connection that the coordinator has closed
    Record record;
    record.term = 1;
    record.generation = 1;
    for (int slot = 0; slot < kPods; ++slot) record.members.push_back({slot, 1, 1});
    ASSERT_TRUE(store.compare_and_set("ns", "a", "uid", "", record));
    asked = &slow;
    start(2);
    JobPlan many = plan();
    many.slots = kPods;
    many.members.clear();
    for (int slot = 0; slot < kPods; ++slot) many.members.push_back({slot, 1, pod(slot), pod(slot), ""});
    coordinator->set_job(many);
  }
  static std::string pod(int slot) { return fmt::format("a-{}", slot); }
  Client& come_back(int slot) {
    clients.push_back(std::make_unique<Client>(coordinator->address(), authority.certificate_pem));
    Hello made = hello();
    made.slot = slot;
    made.pod_name = made.pod_uid = made.session = pod(slot);
    made.phase = MemberPhase::kRunning;
    made.generation = 1;
    made.up = true;
    made.promised = {1, 1};
    clients.back()->send(made);
    return *clients.back();
  }
  static bool runs(const JobView& view) { return view.generation == 1 && view.phase == Phase::kUp; }
  static auto connected(const JobView& view) {
    return std::count_if(view.members.begin(), view.members.end(), [](const auto& member) { return member.connected; });
  }
};

TEST_F(FailOverTest, slow_reviews_of_many_pods_break_no_healthy_gang) {
  for (int slot = 0; slot < kPods; ++slot) come_back(slot);
  const auto until = std::chrono::steady_clock::now() + seconds(15);
  while (std::chrono::steady_clock::now() < until) {
    for (const auto& client : clients) client->send(Heartbeat{1, MemberPhase::kRunning, 1, true});
    const auto view = coordinator->view("uid");
    if (view && (view->phase == Phase::kBroken || connected(*view) == kPods)) break;
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_TRUE(wait_for([](const JobView& view) { return runs(view) && connected(view) == kPods; }));
  EXPECT_EQ(slow.checks(), kPods);
}

TEST_F(FailOverTest, nobody_is_lost_while_its_token_is_being_reviewed) {
  slow.hold(pod(7));
  Client& late = come_back(7);
  for (int slot = 0; slot < kPods; ++slot) {
    if (slot != 7) come_back(slot);
  }
  // Past the time after a take-over in which nobody is evicted, and past the time for which a member may be silent.
  const auto until = std::chrono::steady_clock::now() + seconds(9);
  while (std::chrono::steady_clock::now() < until) {
    for (const auto& client : clients) client->send(Heartbeat{1, MemberPhase::kRunning, 1, true});
    std::this_thread::sleep_for(milliseconds(100));
  }
  slow.go_on();
  EXPECT_TRUE(late.next<Welcome>());
  EXPECT_TRUE(wait_for([](const JobView& view) { return runs(view) && connected(view) == kPods; }));
}

TEST_F(CoordinatorServerTest, a_wrong_token_is_refused_and_shown) {
  coordinator->set_job(plan());
  Hello bad = hello();
  bad.token = "stolen";
  Client client(coordinator->address(), authority.certificate_pem);
  client.send(bad);
  const auto refused = client.next<Refused>();
  ASSERT_TRUE(refused);
  EXPECT_FALSE(refused->final);
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(wait_for([](const JobView& view) {
    return view.refused == std::vector<std::string>{"pod a-0 of slot 0: the token is not of this pod"};
  }));
}

TEST_F(CoordinatorServerTest, a_token_is_checked_once) {
  coordinator->set_job(plan());
  EXPECT_TRUE(a_member_can_join());
  EXPECT_TRUE(a_member_can_join());
  EXPECT_EQ(authenticator.checks(), 1);
}

TEST_F(CoordinatorServerTest, an_older_incarnation_is_told_to_go_though_its_name_is_not_planned) {
  JobPlan named = plan();
  named.members = {{0, 2, "a-1234-0-2", "u2", ""}};
  coordinator->set_job(named);
  ASSERT_TRUE(wait_for([](const JobView&) { return true; }));
  Hello old = hello();
  old.pod_name = "a-1234-0-1";
  Client client(coordinator->address(), authority.certificate_pem);
  client.send(old);
  EXPECT_TRUE(client.next<Refused>()->final);
}

TEST_F(CoordinatorServerTest, an_unknown_pod_is_asked_to_try_again) {
  Client client(coordinator->address(), authority.certificate_pem);
  client.send(hello());
  EXPECT_FALSE(client.next<Refused>()->final);
}

TEST_F(CoordinatorServerTest, agents_verify_the_authority_and_the_name) {
  const KeyPair other = *make_authority();
  EXPECT_FALSE(Client(coordinator->address(), other.certificate_pem).connected());
  EXPECT_FALSE(Client(coordinator->address(), authority.certificate_pem, "elsewhere").connected());
  EXPECT_TRUE(Client(coordinator->address(), authority.certificate_pem).connected());
}

TEST_F(CoordinatorServerTest, malformed_frames_close_their_own_connection_only) {
  coordinator->set_job(plan());
  Client good(coordinator->address(), authority.certificate_pem);
  good.send(hello());
  ASSERT_TRUE(good.next<Welcome>());
  for (const std::string& bad :
       {std::string("\xff\xff\xff\xff", 4), std::string("\0\0\0\0", 4), std::string("\0\0\0\2{]", 6),
        std::string("\0\0\x60\1", 4), *encode_frame(AgentToCoordinator(Up{1}))}) {
    Client client(coordinator->address(), authority.certificate_pem);
    client.send_raw(bad);
    EXPECT_TRUE(client.closed());
  }
  EXPECT_TRUE(good.next<Propose>());
}

TEST_F(CoordinatorServerTest, bytes_that_are_not_tls_and_clients_that_say_nothing_do_no_harm) {
  coordinator->set_job(plan());
  std::vector<int> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(dial(coordinator->address()));
  for (int i = 0; i < 20; ++i) {
    const int fd = dial(coordinator->address());
    const std::string garbage(1000, static_cast<char>('a' + i));
    EXPECT_GT(::send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    char byte = 0;
    while (::recv(fd, &byte, 1, 0) > 0) {
    }
    ::close(fd);
  }
  EXPECT_TRUE(a_member_can_join());
  // The handshake's deadline closes them.
  char byte = 0;
  EXPECT_EQ(::recv(silent.front(), &byte, 1, 0), 0);
  for (const int fd : silent) ::close(fd);
}

TEST_F(CoordinatorServerTest, a_store_that_fails_delays_the_first_generation_only) {
  store.set_broken(true);
  coordinator->set_job(plan());
  Client client(coordinator->address(), authority.certificate_pem);
  client.send(hello());
  ASSERT_TRUE(client.next<Welcome>());
  store.set_broken(false);
  EXPECT_TRUE(client.next<Propose>());
}

TEST_F(CoordinatorServerTest, a_forgotten_job_loses_its_connections_and_its_view) {
  coordinator->set_job(plan());
  Client client(coordinator->address(), authority.certificate_pem);
  client.send(hello());
  ASSERT_TRUE(client.next<Welcome>());
  coordinator->forget_job("uid");
  EXPECT_TRUE(client.closed());
  EXPECT_FALSE(coordinator->view("uid"));
}

TEST_F(CoordinatorServerTest, a_taken_port_is_said) {
  CoordinatorOptions options;
  options.listen_address = "127.0.0.1";
  options.port = std::stoi(coordinator->address().substr(coordinator->address().rfind(':') + 1));
  options.certificate_pem = serving.certificate_pem;
  options.private_key_pem = serving.private_key_pem;
  const auto second = start_coordinator(options, store, authenticator, SystemClock::instance(), nullptr);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

TEST_F(CoordinatorServerTest, plain_tcp_is_never_spoken) {
  EXPECT_FALSE(start_coordinator(CoordinatorOptions{}, store, authenticator, SystemClock::instance(), nullptr));
}

TEST(Certificates, an_authority_that_is_damaged_is_named) {
  KeyPair authority = *make_authority();
  authority.private_key_pem = make_authority()->private_key_pem;
  const auto issued = issue_serving_certificate(authority);
  ASSERT_FALSE(issued);
  EXPECT_EQ(issued.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(issue_serving_certificate(KeyPair{"x", "y"}));
}

}  // namespace
}  // namespace lockstep::rendezvous
