#include "operator/job/coordinator_authority.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "operator/base/number.h"

namespace lockstep::job {
namespace {

using api::Json;
using rendezvous::KeyPair;

constexpr const char* kCertificate = "tls.crt";
constexpr const char* kKey = "tls.key";
constexpr const char* kNextCertificate = "next.crt";
constexpr const char* kNextKey = "next.key";
constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(const std::string& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      group = (group << 8) | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kDigits[(group >> (18 - 6 * j)) & 0x3f] : '=';
    }
  }
  return text;
}

std::optional<std::string> from_base64(const std::string& text) {
  const std::string_view digits(kDigits);
  std::string bytes;
  unsigned buffer = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    const auto digit = digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    buffer = (buffer << 6) | static_cast<unsigned>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((buffer >> bits) & 0xff);
  }
  return bytes;
}

std::optional<KeyPair> pair_of(const Json& secret, const char* certificate, const char* key) {
  KeyPair pair;
  for (const auto& [name, text] :
       {std::pair{certificate, &pair.certificate_pem}, std::pair{key, &pair.private_key_pem}}) {
    const auto pointer = Json::json_pointer("/data") / std::string(name);
    if (!secret.contains(pointer) || !secret.at(pointer).is_string()) return std::nullopt;
    const auto bytes = from_base64(secret.at(pointer).get_ref<const std::string&>());
    if (!bytes) return std::nullopt;
    *text = *bytes;
  }
  return rendezvous::check_key_pair(pair) ? std::optional(pair) : std::nullopt;
}

std::optional<std::string> annotation(const Json& secret, const char* name) {
  const auto pointer = Json::json_pointer("/metadata/annotations") / std::string(name);
  if (!secret.contains(pointer) || !secret.at(pointer).is_string()) return std::nullopt;
  return secret.at(pointer).get<std::string>();
}

std::int64_t term_of(const std::string& text) {
  return parse_number<std::int64_t>(text, 0, kMostTerm).value_or(0);
}

}  // namespace

Result<Authority> parse_authority(const Json& secret) {
  Authority authority;
  const auto current = pair_of(secret, kCertificate, kKey);
  if (!current) {
    return fail(ErrorCode::kCorrupt, std::string("Secret ") + kAuthoritySecret +
                                         " holds no certificate with its private key; delete the Secret to have a new "
                                         "authority made");
  }
  authority.current = *current;
  authority.next = pair_of(secret, kNextCertificate, kNextKey);
  authority.term = term_of(annotation(secret, kTermAnnotation).value_or(""));
  authority.rotate = annotation(secret, kRotateAnnotation).has_value();
  return authority;
}

Json authority_secret(const std::string& name_space, const Authority& authority, const std::optional<Json>& stored) {
  Json secret = stored.value_or(Json{
      {"apiVersion", "v1"},
      {"kind", "Secret"},
      {"type", "kubernetes.io/tls"},
      {"metadata",
       {{"name", kAuthoritySecret},
        {"namespace", name_space},
        {"labels", {{"app.kubernetes.io/name", "lockstep"}, {"app.kubernetes.io/managed-by", "lockstep-operator"}}}}}});
  Json& data = secret["data"];
  if (!data.is_object()) data = Json::object();
  data[kCertificate] = to_base64(authority.current.certificate_pem);
  data[kKey] = to_base64(authority.current.private_key_pem);
  data.erase(kNextCertificate);
  data.erase(kNextKey);
  if (authority.next) {
    data[kNextCertificate] = to_base64(authority.next->certificate_pem);
    data[kNextKey] = to_base64(authority.next->private_key_pem);
  }
  Json& annotations = secret["metadata"]["annotations"];
  if (!annotations.is_object()) annotations = Json::object();
  annotations[kTermAnnotation] = std::to_string(authority.term);
  if (!authority.rotate) annotations.erase(kRotateAnnotation);
  return secret;
}

Result<Authority> decide_authority(const AuthorityView& view, const std::function<Result<KeyPair>()>& make_pair) {
  Authority wanted;
  if (view.stored) {
    wanted = *view.stored;
    // Another pair than the one that is served: either our own switch, whose answer was lost, or somebody's doing.
    const bool switched =
        view.held && view.held->next && view.held->next->certificate_pem == wanted.current.certificate_pem;
    if (view.held && !switched && wanted.current != view.held->current) {
      wanted.next = wanted.current;
      wanted.current = view.held->current;
    }
  } else if (view.held) {
    wanted = *view.held;
  } else {
    LOCKSTEP_TRY(wanted.current, make_pair());
  }

  const std::int64_t claim = view.claimed != 0 ? view.claimed : std::max(view.lease_term, wanted.term + 1);
  wanted.term = std::min(kMostTerm, std::max(wanted.term, claim));

  LOCKSTEP_TRY(const auto end, rendezvous::valid_until(wanted.current.certificate_pem));
  const bool expired = end <= view.now;
  const bool known = view.everyone_trusts_next && view.held && view.held->next == wanted.next;
  if (wanted.next && (expired || known)) {
    wanted.current = *wanted.next;
    wanted.next.reset();
  } else if (!wanted.next && (wanted.rotate || end - view.now < view.rotate_before)) {
    LOCKSTEP_TRY(wanted.next, make_pair());
  }
  if (wanted.next) wanted.rotate = false;  // it has been heard
  return wanted;
}

}  // namespace lockstep::job
