// CRC-32C (Castagnoli), the checksum of TFRecords.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::trainer::data {

std::uint32_t crc32c(std::span<const std::byte> bytes);

// The same without instructions of the processor for it: slower, equal results.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes);

// As TFRecords store it: a checksum of bytes that contain checksums would else be weak.
constexpr std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace lockstep::trainer::data
