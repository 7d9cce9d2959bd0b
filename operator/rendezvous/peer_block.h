// The members of a generation, and where its ranks listen. One block is made for a generation; every GO and ECHO of it
// shares that block, and so does every connection that it is written to. Its form on the wire is encoded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "operator/base/result.h"

namespace lockstep::rendezvous {

// Bytes that are written to a connection. Shared ones are written to many, and belong to none of them.
struct Chunk {
  std::shared_ptr<const std::string> bytes;
  bool shared = false;
};

// Immutable; any thread.
class PeerBlock {
 public:
  struct Member {
    int slot = 0;
    std::int64_t incarnation = 0;        // 0: not known, as when a coordinator of protocol 1 listed the peers
    std::vector<std::string> addresses;  // "ip:port" by local rank
    bool operator==(const Member&) const = default;
  };

  // `members` in the order of their ranks.
  explicit PeerBlock(std::vector<Member> members) : members_(std::move(members)) {}

  const std::vector<Member>& members() const { return members_; }
  // How many ranks all members have together.
  std::size_t ranks() const;
  // The data addresses of all ranks, by rank.
  std::vector<std::string> addresses() const;
  // The slot of each rank, by rank.
  std::vector<int> slots() const;
  // Whether `addresses` are those of the ranks from `first_rank` on.
  bool lists(int first_rank, const std::vector<std::string>& addresses) const;

  // SHA-256 of what the block says, in hexadecimal: its name on the wire.
  const std::string& digest() const;
  // The block as frames of protocol 2. Encoded by the first call.
  const std::vector<Chunk>& frames() const;
  // The block as protocol 1 has it inside of each GO: `"members":[...],"peers":[...],`. Encoded by the first call.
  const Chunk& listed() const;

  bool operator==(const PeerBlock& other) const { return members_ == other.members_; }

 private:
  const std::vector<Member> members_;
  mutable std::once_flag digested_, framed_, written_;
  mutable std::string digest_;
  mutable std::vector<Chunk> frames_;
  mutable Chunk listed_;
};

// A shared block, or none; compared by what the block says.
class Peers {
 public:
  Peers() = default;
  explicit Peers(std::vector<PeerBlock::Member> members)
      : block_(std::make_shared<const PeerBlock>(std::move(members))) {}

  explicit operator bool() const { return block_ != nullptr; }
  const PeerBlock& operator*() const { return *block_; }
  const PeerBlock* operator->() const { return block_.get(); }
  friend bool operator==(const Peers& a, const Peers& b) {
    return a.block_ == b.block_ || (a.block_ && b.block_ && *a.block_ == *b.block_);
  }

 private:
  std::shared_ptr<const PeerBlock> block_;
};

// Collects the parts of a block as they arrive on one connection. Holds at most one block that is whole and one that
// is not, each bounded.
class PeerParts {
 public:
  static constexpr std::size_t kMostBytes = 64 * 1024 * 1024;  // of addresses in one block

  // A PEERS frame: part `part` of `parts`. kInvalid: it does not follow the one before, the block grows beyond its
  // bounds, or the last part does not complete the block of that digest.
  Status add(const std::string& digest, int part, int parts, std::vector<PeerBlock::Member> members);
  // The newest block that is whole, if that is its digest; none otherwise.
  Peers find(const std::string& digest) const;

 private:
  Peers whole_;
  std::string digest_;  // of the one that is under way
  int next_ = 0;        // part; 0: none is under way
  int parts_ = 0;
  std::size_t bytes_ = 0;
  std::size_t ranks_ = 0;
  std::vector<PeerBlock::Member> members_;
};

}  // namespace lockstep::rendezvous
