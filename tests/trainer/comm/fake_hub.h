// Part of the fake (fake_nccl.h): the meeting place of the ranks of one id. It lives in the process that created the
// id. Every rank has one TCP connection to it over the loopback interface, which carries its part of a collective in
// and the result out. Sums are made in order of rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "operator/base/unique_fd.h"
#include "trainer/comm/nccl_api.h"

namespace lockstep::trainer::comm::fake {

struct Message {
  enum Kind : std::uint32_t { kHello, kGo, kAllReduce, kBroadcast, kPeer, kError, kBye, kQuiet };
  Kind kind = kHello;
  std::int32_t peer = 0;  // hello: the rank; broadcast: the root; peer: to whom, then from whom
  NcclType type = NcclType::kUint8;
  NcclOperation operation = NcclOperation::kSum;
  NcclResult result = NcclResult::kSuccess;  // of an error
  std::int32_t size = 0;                     // hello: number of ranks
  std::uint64_t count = 0;                   // elements; hello: the nonce of the id
  std::uint64_t bytes = 0;                   // that follow
};

struct Parcel {
  Message message;
  std::string bytes;
};

bool send_parcel(int fd, const Message& message, const void* bytes);  // message.bytes of them; waits; false: broken
bool receive_parcel(int fd, Parcel& parcel);                          // waits; false: ended or broken

size_t bytes_of(NcclType type);

class Hub {
 public:
  Hub();
  ~Hub();
  std::uint64_t nonce() const { return nonce_; }
  std::uint16_t port() const { return port_; }
  bool finished();  // all ranks have come and left

 private:
  struct Member {
    UniqueFd fd;
    bool here = false, left = false, gone = false;
    std::deque<Parcel> parts;  // of collectives that others have not joined yet
  };

  void accept_all();
  void serve(int fd);
  bool admit(int fd, const Parcel& hello);  // with mutex_ held
  void take(size_t rank, Parcel parcel);    // with mutex_ held
  void collect();                           // with mutex_ held
  void tell_all(const Message& message, const void* bytes);

  std::uint64_t nonce_ = 0;
  std::uint16_t port_ = 0;
  UniqueFd listener_;
  std::mutex mutex_;
  std::vector<Member> members_;
  std::vector<int> waiting_;  // connections that have not said hello
  std::vector<std::thread> threads_;
  bool closing_ = false;
};

}  // namespace lockstep::trainer::comm::fake
