#include "operator/rendezvous/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace lockstep::rendezvous {

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

std::string sha256(std::string_view text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), bytes, &length, EVP_sha256(), nullptr) != 1) return "";
  return hexadecimal(bytes, length);
}

}  // namespace lockstep::rendezvous
