#include "operator/cli/interrupts.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

namespace lockstep::cli {
namespace {

class SignalThread final : public Interrupts {
 public:
  SignalThread(int signals, int stop, std::function<void(int, int)> on_signal)
      : signals_(signals), stop_(stop), thread_([this, call = std::move(on_signal)] { run(call); }) {}
  ~SignalThread() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(stop_, &one, sizeof one);
    thread_.join();
    close(signals_);
    close(stop_);
  }

 private:
  void run(const std::function<void(int, int)>& on_signal) const {
    std::array<pollfd, 2> waits{{{signals_, POLLIN, 0}, {stop_, POLLIN, 0}}};
    int count = 0;
    while (true) {
      if (poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[1].revents != 0) return;
      signalfd_siginfo info{};
      if (read(signals_, &info, sizeof info) == sizeof info) on_signal(static_cast<int>(info.ssi_signo), ++count);
    }
  }

  const int signals_, stop_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Interrupts>> watch_interrupts(std::function<void(int number, int count)> on_signal) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, number);
  const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (signals < 0 || stop < 0) return fail(ErrorCode::kExhausted, "cannot watch for signals: no descriptors are left");
  return std::unique_ptr<Interrupts>(std::make_unique<SignalThread>(signals, stop, std::move(on_signal)));
}

}  // namespace lockstep::cli
