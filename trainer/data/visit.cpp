#include "trainer/data/visit.h"

#include <atomic>
#include <memory>
#include <utility>

#include "trainer/data/attended.h"
#include "trainer/data/data_file.h"

namespace lockstep::trainer::data {

namespace {

// Outlives the call if a thread is left behind.
struct Visit {
  Visit(const char* verb_, std::vector<std::string> paths_, Duration patience, std::function<Status(std::size_t)> work_)
      : verb(verb_), paths(std::move(paths_)), work(std::move(work_)), reader(patience) {}

  const char* const verb;
  const std::vector<std::string> paths;
  const std::function<Status(std::size_t)> work;
  PatientReader reader;
};

}  // namespace

Status visit(const char* verb, std::vector<std::string> paths, Duration patience,
             std::function<Status(std::size_t)> work) {
  const auto shared = std::make_shared<Visit>(verb, std::move(paths), patience, std::move(work));
  auto one = [shared](std::size_t i) {
    const std::atomic<bool> never{false};  // nothing interrupts a trainer that opens its data
    return shared->reader.attempt(shared->verb, shared->paths[i], never, [&] { return shared->work(i); });
  };
  return attend(shared->paths.size(), kVisitors, std::move(one), [&] { return shared->reader.answers(); });
}

}  // namespace lockstep::trainer::data
