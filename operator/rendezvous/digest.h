// SHA-256 and hexadecimal digits, by OpenSSL.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::rendezvous {

std::string hexadecimal(const unsigned char* bytes, std::size_t count);
// 64 hexadecimal digits; empty where OpenSSL has no memory for it.
std::string sha256(std::string_view text);

}  // namespace lockstep::rendezvous
