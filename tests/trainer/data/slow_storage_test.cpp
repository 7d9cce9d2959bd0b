#include "trainer/data/slow_storage.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tests/trainer/data/record_files.h"

namespace lockstep::trainer::data {
namespace {

using std::chrono::milliseconds;
using testing::MemoryFile;

// Its time passes at once when somebody waits.
class JumpingClock final : public Clock {
 public:
  MonotonicTime now() const override { return now_; }
  WallTime wall_now() const override { return {}; }
  bool wait_until(std::unique_lock<std::mutex>&, std::condition_variable&, MonotonicTime deadline) override {
    now_ = std::max(now_, deadline);
    return false;
  }

 private:
  MonotonicTime now_{std::chrono::hours(1)};
};

OpenFile opener_of(std::map<std::string, std::string>& files, int& opens) {
  return [&files, &opens](const std::string& path) -> Result<std::unique_ptr<DataFile>> {
    ++opens;
    const auto found = files.find(path);
    if (found == files.end()) return cannot_read_data(path, ENOENT);
    return std::unique_ptr<DataFile>(std::make_unique<MemoryFile>(path, testing::bytes_of(found->second)));
  };
}

TEST(SlowStorage, bytes_pass_one_after_the_other_and_latencies_side_by_side) {
  struct Request {
    int at;  // ms
    std::uint64_t bytes;
    int answered;  // ms
  };
  struct Case {
    StorageFigures figures;
    std::vector<Request> requests;
  };
  const std::vector<Case> cases = {
      {{}, {{0, 5000, 0}, {1, 0, 1}}},
      {{.latency = milliseconds(20)}, {{0, 0, 20}, {0, 1'000'000'000, 20}, {7, 5, 27}}},
      {{.bytes_per_second = 1000}, {{0, 100, 100}, {0, 50, 150}, {120, 0, 150}, {400, 10, 410}}},
      {{.latency = milliseconds(20), .bytes_per_second = 1000}, {{0, 100, 120}, {1, 50, 170}, {1000, 0, 1020}}}};
  for (const Case& one : cases) {
    AnswerTimes times(one.figures);
    const MonotonicTime start(std::chrono::hours(5));
    for (const Request& request : one.requests) {
      const MonotonicTime answer = times.next(start + milliseconds(request.at), request.bytes);
      EXPECT_EQ(answer - start, milliseconds(request.answered)) << request.at << " " << request.bytes;
    }
  }
}

TEST(SlowStorage, each_opening_and_each_read_waits_once_it_has_begun) {
  std::map<std::string, std::string> files = {{"a", std::string(2000, 'x')}};
  int opens = 0;
  JumpingClock clock;
  SlowStorage slow({.latency = milliseconds(5), .bytes_per_second = 1000}, clock);
  const OpenFile open = slow.over(opener_of(files, opens));
  std::vector<std::byte> bytes(1000);
  const MonotonicTime start = clock.now();
  const auto early = open("a").value();
  EXPECT_TRUE(early->read(0, bytes).ok());
  EXPECT_EQ(clock.now(), start) << "it has not begun";
  slow.begin();
  EXPECT_TRUE(early->read(1000, bytes).ok());
  EXPECT_EQ(clock.now() - start, milliseconds(1005));
  const auto late = open("a").value();
  EXPECT_EQ(clock.now() - start, milliseconds(1010));
  EXPECT_EQ(late->size(), 2000U);
  EXPECT_TRUE(late->unchanged().ok());
  EXPECT_EQ(clock.now() - start, milliseconds(1010)) << "neither is a request";
  EXPECT_EQ(open("b").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(late->read(1500, bytes).error().code, ErrorCode::kUnavailable) << "errors pass through";
}

TEST(SlowStorage, what_is_in_memory_is_read_once) {
  std::map<std::string, std::string> files = {{"a", "some bytes"}, {"b", "more"}, {"c", "too many bytes"}};
  int opens = 0;
  const OpenFile open = in_memory(opener_of(files, opens), 20);
  std::vector<std::byte> bytes(5);
  for (int i = 0; i < 3; ++i) {
    const auto file = open("a").value();
    EXPECT_EQ(file->size(), 10U);
    ASSERT_TRUE(file->read(5, bytes).ok());
    EXPECT_EQ(bytes, testing::bytes_of("bytes"));
    EXPECT_EQ(file->read(6, bytes).error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(file->read(~std::uint64_t{0}, bytes).error().code, ErrorCode::kUnavailable);
  }
  EXPECT_EQ(opens, 1);
  EXPECT_TRUE(open("b").ok());
  EXPECT_EQ(open("c").error().message, "the data has more than 0 MiB, up to 'c', and is not read into memory");
  EXPECT_EQ(open("none").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(open("a").ok());
}

}  // namespace
}  // namespace lockstep::trainer::data
