// A gang of trainer processes whose agents and coordinator the test plays. It starts ranks, kills them, and forms the
// next generation from the others and from processes that replace the dead.
#pragma once

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "operator/base/unique_fd.h"
#include "operator/rendezvous/worker_contract.h"
#include "tests/trainer/main/process.h"

namespace lockstep::trainer::testing {

// Holds a gang back, so that it cannot end before the test has acted, however slow the machine. The leading rank writes
// a line for each step into a pipe that has room for a few.
class Gate {
 public:
  explicit Gate(const fs::path& path) : path_(path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    pipe_.reset(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    EXPECT_EQ(::fcntl(pipe_.get(), F_SETPIPE_SZ, kPage), kPage);
    let_some_pass();
  }
  // Room for about nine more steps.
  void let_some_pass() {
    drain();
    std::string filler(1600, '\n');
    [[maybe_unused]] ssize_t n = ::write(pipe_.get(), filler.data(), filler.size());  // or it was filled meanwhile
  }
  // Opens the gate until there is something to read from `closed`.
  void stay_open(int closed) {
    pollfd list[] = {{pipe_.get(), POLLIN, 0}, {closed, POLLIN, 0}};
    while (list[1].revents == 0 && (::poll(list, 2, -1) >= 0 || errno == EINTR)) drain();
    let_some_pass();
  }
  std::string flag() const { return "--metrics-file=" + path_.string(); }

 private:
  static constexpr int kPage = 4096;  // the least that a pipe holds

  void drain() {
    char bytes[kPage];
    while (::read(pipe_.get(), bytes, sizeof bytes) > 0) continue;
  }

  fs::path path_;
  UniqueFd pipe_;
};

class PlayedGang {
  static constexpr std::chrono::milliseconds kBetweenPasses{5};

  // The result of `act`; nothing holds the gang back meanwhile.
  template <typename Act>
  auto with_open_gate(Act act) {
    UniqueFd closed(::eventfd(0, EFD_CLOEXEC));
    EXPECT_GE(closed.get(), 0);
    std::thread opener([&] { gate_.stay_open(closed.get()); });
    auto result = act();
    EXPECT_EQ(::eventfd_write(closed.get(), 1), 0);
    opener.join();
    return result;
  }

 public:
  using WorkerMessage = rendezvous::WorkerMessage;

  // Two ranks to a pod, which talk over shared memory. `environment` is for all processes.
  PlayedGang(fs::path folder, size_t ranks, std::vector<std::string> arguments, Environment environment = {})
      : folder_(std::move(folder)),
        arguments_(std::move(arguments)),
        environment_(std::move(environment)),
        gate_(folder_ / "steps") {
    arguments_.push_back(gate_.flag());
    seats_.resize(ranks);
    for (Seat& seat : seats_) {
      int port = 0;
      seat.listener = bound(&port);
      EXPECT_EQ(::listen(seat.listener.get(), 16), 0);
      peers_.push_back("127.0.0.1:" + std::to_string(port));
      members_.push_back(static_cast<int>(members_.size() / 2));
    }
  }

  // All ranks as generation 1, until each is up.
  void start() {
    for (size_t rank = 0; rank < seats_.size(); ++rank) start_process(rank, {});
    expect_up();
  }

  // As a user without an agent: the ranks cannot be regrouped.
  void start_without_agents() {
    for (size_t rank = 0; rank < seats_.size(); ++rank) start_process(rank, {}, false);
  }

  Process& process(size_t rank) { return *seats_[rank].process; }

  void kill(size_t rank) {
    process(rank).signal(SIGKILL);
    EXPECT_EQ(process(rank).wait().code, 128 + SIGKILL);
    seats_[rank].alive = false;
  }

  // Tells a rank to end, as an agent whose pod has to go does, and waits for its end with the gate open.
  Ended leave(size_t rank) {
    process(rank).signal(SIGTERM);
    Ended ended = with_open_gate([&] { return process(rank).wait(); });
    seats_[rank].alive = false;
    return ended;
  }

  // The next message of a rank for which `wanted` is true; an empty one if none comes within the patience.
  WorkerMessage hears(size_t rank, const std::function<bool(const WorkerMessage&)>& wanted) {
    Seat& seat = seats_[rank];
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      size_t newline = seat.heard.find('\n');
      if (newline == std::string::npos) {
        char chunk[4096];
        auto now = std::chrono::steady_clock::now();
        if (!readable(seat.link.get(), std::min(deadline, now + kBetweenPasses)) && now < deadline) {
          gate_.let_some_pass();  // a leading rank that waits at the gate reads no order
          continue;
        }
        ssize_t n = ::recv(seat.link.get(), chunk, sizeof chunk, MSG_DONTWAIT);
        if (n <= 0) {
          ADD_FAILURE() << "rank " << rank << " says nothing more: " << process(rank).err();
          return {};
        }
        seat.heard.append(chunk, static_cast<size_t>(n));
        continue;
      }
      auto message = rendezvous::decode_worker_message(seat.heard.substr(0, newline));
      seat.heard.erase(0, newline + 1);
      if (message && wanted(*message)) return *message;
    }
  }
  rendezvous::BrokenReport hears_broken(size_t rank) {
    return hears(rank, [](const WorkerMessage& it) { return it.broken.has_value(); })
        .broken.value_or(rendezvous::BrokenReport());
  }

  void says(size_t rank, const rendezvous::AgentMessage& message) {
    std::string line = rendezvous::encode(message);
    ssize_t sent = ::send(seats_[rank].link.get(), line.data(), line.size(), MSG_NOSIGNAL);
    EXPECT_EQ(sent, static_cast<ssize_t>(line.size())) << "rank " << rank << " is gone: " << process(rank).err();
  }
  // The same, and returns when the process has obeyed: its link takes a message after it has obeyed the one before.
  void is_obeyed(size_t rank, const rendezvous::AgentMessage& message) {
    says(rank, message);
    expect_taken(rank);
    says(rank, {.kind = rendezvous::AgentMessage::Kind::kYield, .regroup = {}, .join = {}, .yields = 0});
    expect_taken(rank);
  }
  void hang_up(size_t rank) { seats_[rank].link.reset(); }

  // Asks these ranks to end a generation, the present one where none is named, after a step on which all agree.
  void yield(const std::vector<size_t>& ranks, std::int64_t generation = 0) {
    rendezvous::AgentMessage message;
    message.kind = rendezvous::AgentMessage::Kind::kYield;
    message.yields = generation == 0 ? generation_ : generation;
    for (size_t rank : ranks) says(rank, message);
  }

  // Announces a generation to all living ranks, and waits for their versions.
  void regroup(std::int64_t generation) {
    generation_ = generation;
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (!seats_[rank].alive) continue;
      says(rank,
           {.kind = rendezvous::AgentMessage::Kind::kRegroup, .regroup = {1, generation}, .join = {}, .yields = 0});
    }
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (!seats_[rank].alive) continue;
      auto answer =
          hears(rank, [&](const WorkerMessage& it) { return it.holding && it.holding->generation == generation; });
      seats_[rank].holds = answer.holding.value_or(rendezvous::Holding()).version;
    }
  }

  // A rank with the newest version; it sends its state unless all hold that version.
  rendezvous::StateSource source() const {
    rendezvous::StateSource source;
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (!seats_[rank].alive) continue;
      if (source.rank >= 0 && !seats_[rank].holds.newer_than(source.version)) continue;
      source.rank = static_cast<int>(rank);
      source.version = seats_[rank].holds;
    }
    for (const Seat& seat : seats_) source.send |= !seat.alive || seat.holds != source.version;
    return source;
  }

  // Joins the living ranks into the generation of the last regroup. Does not wait for them.
  void join() { join(source()); }
  void join(const rendezvous::StateSource& from) {
    rendezvous::Join join{.term = 1,
                          .generation = generation_,
                          .rank = 0,
                          .world_size = static_cast<int>(seats_.size()),
                          .peers = peers_,
                          .member_of_rank = members_,
                          .key = key(),
                          .source = from,
                          .restore = ""};
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      join.rank = static_cast<int>(rank);
      if (!seats_[rank].alive) continue;
      says(rank, {.kind = rendezvous::AgentMessage::Kind::kJoin, .regroup = {}, .join = join, .yields = 0});
    }
  }
  // Starts a process for each of the dead.
  void replace_the_dead() { replace_the_dead(source()); }
  void replace_the_dead(const rendezvous::StateSource& from) {
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      if (!seats_[rank].alive) start_process(rank, from);
    }
  }
  void expect_up() {
    for (size_t rank = 0; rank < seats_.size(); ++rank) {
      std::string& identity = seats_[rank].identity;
      const auto up = hears(rank, [&](const WorkerMessage& it) {
        identity = it.identity.value_or(identity);
        return it.up;
      });
      EXPECT_TRUE(up.regroups);
    }
  }
  // The messages of a rank before it was up.
  const std::string& identity(size_t rank) const { return seats_[rank].identity; }
  // All of them, for a gang whose dead are known.
  void form(std::int64_t generation) {
    regroup(generation);
    join();
    replace_the_dead();
    expect_up();
  }

  // The ends of all living ranks, in rank order, with the gate open.
  std::vector<Ended> wait() {
    return with_open_gate([&] {
      std::vector<Ended> ends;
      for (Seat& seat : seats_) ends.push_back(seat.alive ? seat.process->wait() : Ended());
      return ends;
    });
  }

 private:
  struct Seat {
    UniqueFd listener;  // stays open, as with an agent
    UniqueFd link;
    std::string heard;
    std::string identity;
    std::unique_ptr<Process> process;
    bool alive = false;
    rendezvous::StateVersion holds;
  };

  std::string key() const { return std::string(63, '5') + std::to_string(generation_); }

  // Waits until the process has taken all that it was sent. The kernel tells no sender of it, so this looks.
  void expect_taken(size_t rank) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    int left = 1;
    while (::ioctl(seats_[rank].link.get(), SIOCOUTQ, &left) == 0 && left > 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank " << rank << " takes no message";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(left, 0);
  }

  void start_process(size_t rank, const rendezvous::StateSource& from, bool with_agent = true) {
    Seat& seat = seats_[rank];
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    seat.link.reset(ends[0]);
    seat.heard.clear();
    UniqueFd theirs(ends[1]);
    Environment environment = environment_;
    environment["RANK"] = std::to_string(rank);
    environment["WORLD_SIZE"] = std::to_string(seats_.size());
    environment["LOCAL_RANK"] = std::to_string(rank % 2);
    environment["LOCKSTEP_JOB_UID"] = "uid-" + std::to_string(::getpid());  // names segments that all ranks see
    environment["LOCKSTEP_GENERATION"] = std::to_string(generation_);
    environment["LOCKSTEP_GENERATION_KEY"] = key();
    environment["LOCKSTEP_LISTEN_FD"] = std::to_string(seat.listener.get());
    if (with_agent) environment["LOCKSTEP_AGENT_FD"] = std::to_string(theirs.get());
    for (size_t i = 0; i < seats_.size(); ++i) {
      environment["LOCKSTEP_PEERS"] += (i == 0 ? "" : ",") + peers_[i];
      environment["LOCKSTEP_MEMBERS"] += (i == 0 ? "" : ",") + std::to_string(members_[i]);
    }
    if (from.rank >= 0) {
      environment["LOCKSTEP_STATE_SOURCE"] = std::to_string(from.rank) + " " + std::to_string(from.version.generation) +
                                             " " + std::to_string(from.version.step) + " " + from.version.digest;
    }
    std::string name = "rank" + std::to_string(rank) + ".generation" + std::to_string(generation_);
    seat.process = std::make_unique<Process>(folder_, name, arguments_, environment,
                                             Limits{.keep_fds = {seat.listener.get(), theirs.get()}});
    seat.alive = true;
  }

  fs::path folder_;
  std::vector<std::string> arguments_;
  Environment environment_;
  Gate gate_;
  std::vector<Seat> seats_;
  std::vector<std::string> peers_;
  std::vector<int> members_;
  std::int64_t generation_ = 1;
};

}  // namespace lockstep::trainer::testing
