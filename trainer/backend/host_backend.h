// What backends that compute in the host's memory have in common: everything is done when the call returns.
#pragma once

#include <cstring>
#include <memory>

#include "trainer/backend/host_memory.h"
#include "trainer/core/backend.h"
#include "trainer/core/norm.h"
#include "trainer/core/parallel.h"
#include "trainer/optim/host_update.h"

namespace lockstep::trainer::backend {

class HostBackend : public core::Backend {
 public:
  Result<std::unique_ptr<core::Memory>> allocate(size_t bytes) override { return HostMemory::allocate(bytes); }
  std::byte* host(std::byte* address) override { return address; }
  void clear(std::byte* to, size_t bytes) override {
    core::for_parts(bytes, threads(), [to](size_t begin, size_t end) { std::memset(to + begin, 0, end - begin); });
  }
  void write(std::byte* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);  // an empty vector has no address
  }
  void read(void* to, const std::byte* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void write_pixels(std::byte* to, const std::uint8_t* from, size_t count, const core::PixelValues& values) override {
    core::spread_pixels(from, count, values, real(), to, threads());
  }
  core::Mark mark() override { return {}; }
  bool reached(core::Mark) override { return true; }
  Status wait(core::Mark) override { return {}; }
  void round_and_clear(std::byte* values, size_t count, int exponent, bool add, std::byte* sums,
                       core::RoundingFlags* flags) override {
    core::round_and_clear(values, real(), count, exponent, add, reinterpret_cast<std::int64_t*>(sums), threads(),
                          *flags);
  }
  void unround(const std::byte* sums, size_t count, int exponent, std::byte* values, std::uint64_t* largest) override {
    *largest = core::unround(reinterpret_cast<const std::int64_t*>(sums), count, exponent, values, real(), threads());
  }
  void norm(const std::byte* values, size_t count, double* norm) override {
    *norm = norms_.norm(values, count, real(), threads());
  }
  std::uint64_t update(const core::Optimizer& optimizer, const core::Update& update) override {
    return optim::update_on_host(optimizer, update, real(), threads(), norms_);
  }

 private:
  core::NormTree norms_;
};

}  // namespace lockstep::trainer::backend
