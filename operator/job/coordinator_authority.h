// What every leader of a cluster inherits from the one before, in a Secret. That is the certificate authority by which
// agents know the coordinator, the authority that is to replace it, and the highest term that was claimed.
//
// The functions here are pure but for the randomness of a new authority. leader_duties.h reads and writes the Secret,
// and says when.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "operator/api/object.h"
#include "operator/base/result.h"
#include "operator/rendezvous/certificates.h"

namespace lockstep::job {

inline constexpr const char* kAuthoritySecret = "lockstep-coordinator-ca";
// Annotations of that Secret: the highest claimed term, and somebody's wish for a new authority (any value).
inline constexpr const char* kTermAnnotation = "lockstep.dev/term";
inline constexpr const char* kRotateAnnotation = "lockstep.dev/rotate";
// The Lease's leaseTransitions holds a term too, and the API server limits that to 32 bits.
inline constexpr std::int64_t kMostTerm = (std::int64_t{1} << 31) - 2;

struct Authority {
  rendezvous::KeyPair current;              // it issues the serving certificate
  std::optional<rendezvous::KeyPair> next;  // while it rotates: new pods trust both
  std::int64_t term = 0;                    // the highest claimed
  bool rotate = false;                      // somebody asked for it

  bool operator==(const Authority&) const = default;
  // The certificates that new pods are to trust, as PEM.
  std::string trusted_pem() const { return current.certificate_pem + (next ? next->certificate_pem : std::string()); }
};

// What the Secret says. kCorrupt when it holds no key pair; a term that is no number of [0, kMostTerm] reads as 0.
Result<Authority> parse_authority(const api::Json& secret);

// `stored` (or a new Secret of `name_space`) with this authority in it; whatever else it holds stays.
api::Json authority_secret(const std::string& name_space, const Authority& authority,
                           const std::optional<api::Json>& stored);

// What a leader knows when it decides what the Secret shall hold.
struct AuthorityView {
  std::optional<Authority> stored;    // nullopt: there is no Secret, or none with a key pair
  std::optional<Authority> held;      // what this leader serves; nullopt before its first look
  std::int64_t claimed = 0;           // this leader's term; 0: it has yet to claim one
  std::int64_t lease_term = 0;        // leaseTransitions of its leadership
  bool everyone_trusts_next = false;  // no running pod lacks the next authority of `held`
  WallTime now{};
  Duration rotate_before = std::chrono::hours(24 * 365);  // remaining validity that starts a rotation
};

// What the Secret shall hold. The term is claimed as max(lease_term, stored term + 1) and never falls. The pair that
// this leader serves is restored when it is gone; a pair that somebody put in its place becomes the next one.
Result<Authority> decide_authority(const AuthorityView& view,
                                   const std::function<Result<rendezvous::KeyPair>()>& make_pair);

}  // namespace lockstep::job
