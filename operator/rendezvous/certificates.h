// The certificate authority of a cluster's coordinators, and certificates issued from it (OpenSSL, ECDSA P-256).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "operator/base/clock.h"
#include "operator/base/result.h"

namespace lockstep::rendezvous {

struct KeyPair {
  std::string certificate_pem;
  std::string private_key_pem;

  bool operator==(const KeyPair&) const = default;
};

inline constexpr std::chrono::seconds kAuthorityValid{10L * 365 * 24 * 3600};

// A new authority. Its certificate goes to the agents in LOCKSTEP_COORDINATOR_CA.
Result<KeyPair> make_authority(std::chrono::seconds valid = kAuthorityValid);

// Serving certificate for the DNS name "lockstep-coordinator", which agents verify whatever address they dial. kCorrupt
// as for check_key_pair().
Result<KeyPair> issue_serving_certificate(const KeyPair& authority);

// kCorrupt unless `pair` is a certificate with its private key.
Status check_key_pair(const KeyPair& pair);

// When the first certificate of `pem` stops being valid. kCorrupt when there is none.
Result<WallTime> valid_until(const std::string& pem);

// A name for each certificate of `pem`: the first 16 hexadecimal digits of its SHA-256.
std::vector<std::string> fingerprints(const std::string& pem);

}  // namespace lockstep::rendezvous
