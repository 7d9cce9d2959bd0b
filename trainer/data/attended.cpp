#include "trainer/data/attended.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "operator/base/thread.h"

namespace lockstep::trainer::data {

namespace {

// Outlives the call if a thread is left behind.
struct Shared {
  explicit Shared(std::function<Status(std::size_t)> work_, std::size_t count_)
      : work(std::move(work_)), count(count_) {}

  void run() {
    std::unique_lock lock(mutex);
    while (next < count && failed.empty()) {
      const std::size_t number = next++;
      lock.unlock();
      Status done;
      try {
        done = work(number);
      } catch (const std::exception& error) {
        done = fail(ErrorCode::kExhausted, fmt::format("cannot read data: {}", error.what()));
      }
      lock.lock();
      if (!done) failed.emplace(number, done.error());
    }
    --running;
    ended.notify_all();
  }

  const std::function<Status(std::size_t)> work;
  const std::size_t count;
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t next = 0;                 // number; by mutex
  int running = 0;                      // threads; by mutex
  std::map<std::size_t, Error> failed;  // by number; by mutex
};

}  // namespace

Status attend(std::size_t count, int threads, std::function<Status(std::size_t)> work,
              const std::function<Status()>& check) {
  const auto shared = std::make_shared<Shared>(std::move(work), count);
  std::vector<std::thread> started;
  Status attended;
  for (int i = 0; i < threads && static_cast<std::size_t>(i) < count && attended; ++i) {
    std::unique_lock lock(shared->mutex);
    try {
      started.push_back(start_without_signals([shared] { shared->run(); }));
      ++shared->running;
    } catch (const std::system_error& error) {
      shared->next = count;
      attended = fail(ErrorCode::kExhausted, fmt::format("cannot start a thread to read data: {}", error.what()));
    }
  }
  std::unique_lock lock(shared->mutex);
  while (!shared->ended.wait_for(lock, kLookEvery, [&] { return shared->running == 0; })) {
    lock.unlock();
    const Status checked = check();
    lock.lock();
    if (checked || shared->running == 0) continue;
    shared->next = count;
    for (std::thread& thread : started) thread.detach();
    return checked;
  }
  lock.unlock();
  for (std::thread& thread : started) thread.join();
  if (attended && !shared->failed.empty()) return shared->failed.begin()->second;
  return attended;
}

}  // namespace lockstep::trainer::data
