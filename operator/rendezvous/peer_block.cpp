#include "operator/rendezvous/peer_block.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "operator/rendezvous/digest.h"
#include "operator/rendezvous/limits.h"
#include "operator/rendezvous/protocol.h"

namespace lockstep::rendezvous {
namespace {

// A part is full once it holds so much. One more member of the most ranks still fits its frame.
constexpr std::size_t kFullPart = 64 * 1024;

// A text in JSON, quotes included.
std::string quoted(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Chunk shared(std::string bytes) {
  return {std::make_shared<const std::string>(std::move(bytes)), true};
}

}  // namespace

std::size_t PeerBlock::ranks() const {
  std::size_t count = 0;
  for (const Member& member : members_) count += member.addresses.size();
  return count;
}

std::vector<std::string> PeerBlock::addresses() const {
  std::vector<std::string> all;
  all.reserve(ranks());
  for (const Member& member : members_) all.insert(all.end(), member.addresses.begin(), member.addresses.end());
  return all;
}

std::vector<int> PeerBlock::slots() const {
  std::vector<int> all;
  all.reserve(ranks());
  for (const Member& member : members_) all.insert(all.end(), member.addresses.size(), member.slot);
  return all;
}

bool PeerBlock::lists(int first_rank, const std::vector<std::string>& addresses) const {
  auto skip = static_cast<std::size_t>(first_rank);
  std::size_t found = 0;
  for (const Member& member : members_) {
    if (skip >= member.addresses.size()) {
      skip -= member.addresses.size();
      continue;
    }
    for (; skip < member.addresses.size() && found < addresses.size(); ++skip, ++found) {
      if (member.addresses[skip] != addresses[found]) return false;
    }
    skip = 0;
    if (found == addresses.size()) break;
  }
  return found == addresses.size();
}

const std::string& PeerBlock::digest() const {
  std::call_once(digested_, [this] {
    std::string text;
    for (const Member& member : members_) {
      text += fmt::format("{} {} {}\n", member.slot, member.incarnation, fmt::join(member.addresses, ","));
    }
    digest_ = sha256(text);
  });
  return digest_;
}

const std::vector<Chunk>& PeerBlock::frames() const {
  std::call_once(framed_, [this] {
    std::vector<std::string> parts(1);
    for (const Member& member : members_) {
      if (parts.back().size() >= kFullPart) parts.emplace_back();
      std::string& part = parts.back();
      part += fmt::format("{}[{},{},{}]", part.empty() ? "" : ",", member.slot, member.incarnation,
                          quoted(fmt::format("{}", fmt::join(member.addresses, ","))));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string json = fmt::format(R"({{"type":"PEERS","digest":"{}","part":{},"parts":{},"members":[{}]}})",
                                           digest(), i, parts.size(), parts[i]);
      frames_.push_back(shared(*encode_length(json.size()) + json));
    }
  });
  return frames_;
}

const Chunk& PeerBlock::listed() const {
  std::call_once(written_, [this] {
    std::vector<std::string> texts;
    for (const std::string& address : addresses()) texts.push_back(quoted(address));
    listed_ = shared(fmt::format(R"("members":[{}],"peers":[{}],)", fmt::join(slots(), ","), fmt::join(texts, ",")));
  });
  return listed_;
}

Status PeerParts::add(const std::string& digest, int part, int parts, std::vector<PeerBlock::Member> members) {
  if (part == 0) {
    digest_ = digest;
    parts_ = parts;
    next_ = 0;
    bytes_ = ranks_ = 0;
    members_.clear();
  }
  if (part != next_ || digest != digest_ || parts != parts_ || part >= parts) {
    next_ = 0;
    return fail(ErrorCode::kInvalid,
                fmt::format("part {} of {} of a peer block does not follow the one before", part, parts));
  }
  for (PeerBlock::Member& member : members) {
    ranks_ += member.addresses.size();
    for (const std::string& address : member.addresses) bytes_ += address.size() + sizeof address;
    members_.push_back(std::move(member));
  }
  if (ranks_ > static_cast<std::size_t>(kMostRanks) || bytes_ > kMostBytes || members_.size() > ranks_) {
    next_ = 0;
    members_ = {};
    return fail(ErrorCode::kInvalid,
                fmt::format("a peer block of more than {} ranks or {} bytes", kMostRanks, kMostBytes));
  }
  if (++next_ < parts) return {};
  next_ = 0;
  Peers whole(std::exchange(members_, {}));
  if (whole->digest() != digest)
    return fail(ErrorCode::kInvalid, "a peer block does not have the digest that it bears");
  whole_ = std::move(whole);
  return {};
}

Peers PeerParts::find(const std::string& digest) const {
  return whole_ && whole_->digest() == digest ? whole_ : Peers();
}

}  // namespace lockstep::rendezvous
