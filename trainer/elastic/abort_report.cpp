#include "trainer/elastic/abort_report.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

namespace lockstep::trainer::elastic {
namespace {

constexpr size_t kHandlerStack = size_t{64} << 10;
constexpr size_t kMostFrames = 48;
constexpr size_t kMostPrinted = 14;          // the innermost: the agent keeps this much of standard error
constexpr size_t kMostName = 110;            // characters of a function's name
constexpr int kOwnFrames = 2;                // the handler, and the frame of the kernel around it
constexpr long kAnswerWithin = 500'000'000;  // nanoseconds that the handler has
// Generated code of oneDNN does not name its caller. A thread that still runs leaves that code soon.
constexpr int kMostTries = 100;
constexpr auto kBetweenTries = std::chrono::milliseconds(2);

// The result of the handler. There is one handler in a process.
std::array<void*, kMostFrames> frames;
std::atomic<int> captured{0};
sem_t answered;

int capture_signal() {
  return SIGRTMIN + 4;
}

void capture(int) {
  const int error = errno;
  captured.store(::backtrace(frames.data(), static_cast<int>(frames.size())));
  ::sem_post(&answered);
  errno = error;
}

sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}

void print(const std::string& text) {
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, left.data(), left.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) left.remove_prefix(static_cast<size_t>(n));
  }
}

// "function+0x1f", or "file+0x1234" where the function has no name that can be looked up.
std::string name_of(void* address) {
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) return "code without a name";
  const auto distance = [&](const void* from) {
    return static_cast<const char*>(address) - static_cast<const char*>(from);
  };
  if (found.dli_sname == nullptr) {
    const std::string_view file = found.dli_fname;
    return fmt::format("{}+{:#x}", file.substr(file.rfind('/') + 1), distance(found.dli_fbase));
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
  const std::string name = plain ? plain.get() : found.dli_sname;
  return fmt::format("{}+{:#x}", name.size() > kMostName ? name.substr(0, kMostName) + "..." : name,
                     distance(found.dli_saddr));
}

std::string stack_in_words() {
  std::string text = "lockstep-trainer: aborted by SIGABRT; the thread that trains is at\n";
  const int count = captured.load();
  size_t printed = 0;
  for (int i = kOwnFrames; i < count && printed < kMostPrinted; ++i, ++printed) {
    text += fmt::format("  #{} {}\n", printed, name_of(frames[static_cast<size_t>(i)]));
  }
  return text;
}

}  // namespace

AbortReport::AbortReport() : watched_(::pthread_self()), watched_tid_(::gettid()) {
  const sigset_t abort = only(SIGABRT);
  signals_.reset(::signalfd(-1, &abort, SFD_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!signals_ || !wake_ || ::sem_init(&answered, 0, 0) != 0) return;  // without them SIGABRT ends the process at once
  ::backtrace(frames.data(), 1);                                        // loads its library, which a handler could not
  stack_ = std::make_unique<std::byte[]>(kHandlerStack);
  stack_t stack{};
  stack.ss_sp = stack_.get();
  stack.ss_size = kHandlerStack;
  ::sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_handler = capture;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  ::sigaction(capture_signal(), &action, nullptr);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for other threads
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &abort, nullptr);
}

AbortReport::~AbortReport() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
  ::signal(capture_signal(), SIG_IGN);
  ::sigaltstack(&stack_before_, nullptr);
  ::sem_destroy(&answered);
  const sigset_t abort = only(SIGABRT);
  ::pthread_sigmask(SIG_UNBLOCK, &abort, nullptr);
}

// Makes the watched thread write its stack to `frames`; false: it does not answer.
bool AbortReport::capture_now() const {
  if (::pthread_kill(watched_, capture_signal()) != 0) return false;
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += kAnswerWithin;
  until.tv_sec += until.tv_nsec / 1'000'000'000;
  until.tv_nsec %= 1'000'000'000;
  int waited = -1;
  do {
    waited = ::sem_timedwait(&answered, &until);
  } while (waited != 0 && errno == EINTR);
  return waited == 0;
}

void AbortReport::run() {
  std::array<pollfd, 2> list{{{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
  while (true) {
    if (::poll(list.data(), list.size(), -1) < 0 && errno != EINTR) return;
    if (list[1].revents != 0) return;
    signalfd_siginfo info;
    if (list[0].revents != 0 && ::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) break;
  }
  bool answers = capture_now();
  for (int i = 0; answers && captured.load() <= kOwnFrames + 1 && i < kMostTries; ++i) {
    std::this_thread::sleep_for(kBetweenTries);
    answers = capture_now();
  }
  if (answers) {
    print(stack_in_words());
  } else {
    print(
        fmt::format("lockstep-trainer: aborted by SIGABRT; the thread that trains (number {}) does not answer: it is "
                    "inside the kernel, and cannot be interrupted there\n",
                    watched_tid_));
  }
  const sigset_t abort = only(SIGABRT);
  ::pthread_sigmask(SIG_UNBLOCK, &abort, nullptr);
  ::raise(SIGABRT);  // its action is the default one
}

}  // namespace lockstep::trainer::elastic
