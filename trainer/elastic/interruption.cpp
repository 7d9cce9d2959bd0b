#include "trainer/elastic/interruption.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::trainer::elastic {

Result<std::unique_ptr<Interruption>> Interruption::create() {
  UniqueFd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event) {
    return fail(ErrorCode::kExhausted, fmt::format("no eventfd to interrupt a rank with: {}", std::strerror(errno)));
  }
  return std::unique_ptr<Interruption>(new Interruption(std::move(event)));
}

void Interruption::raise() {
  const std::lock_guard guard(mutex_);
  flag_.store(true);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_.get(), &one, sizeof one);
  if (communicator_ != nullptr) communicator_->abort({});  // its owner learns whether the end was clean
  if (wake_) wake_();
}

void Interruption::clear() {
  const std::lock_guard guard(mutex_);
  flag_.store(false);
  std::uint64_t value = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_.get(), &value, sizeof value);
}

void Interruption::on_raise(std::function<void()> wake) {
  const std::lock_guard guard(mutex_);
  wake_ = std::move(wake);
  if (wake_ && flag_.load()) wake_();
}

void Interruption::use(comm::Communicator* communicator) {
  const std::lock_guard guard(mutex_);
  communicator_ = communicator;
  if (communicator_ != nullptr && flag_.load()) communicator_->abort({});
}

}  // namespace lockstep::trainer::elastic
