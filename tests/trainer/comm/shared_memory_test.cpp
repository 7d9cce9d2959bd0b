#include "trainer/comm/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

namespace lockstep::trainer::comm {
namespace {

class SharedMemory : public ::testing::Test {
 protected:
  SharedMemory() {
    std::string name = ::testing::TempDir() + "lockstep-shared-XXXXXX";
    dir_ = ::mkdtemp(name.data());
  }
  ~SharedMemory() override { ::rmdir(dir_.c_str()); }

  std::unique_ptr<Segment> make(std::uint64_t generation, std::uint32_t rank, size_t capacity = 8192) {
    auto segment = Segment::create(dir_, "tag", generation, rank, capacity);
    EXPECT_TRUE(segment.ok()) << segment.error().message;
    return segment ? std::move(segment).value() : nullptr;
  }
  std::string dir_;
};

TEST_F(SharedMemory, the_name_is_gone_when_the_owner_says_so_and_the_memory_stays) {
  auto own = make(3, 0);
  auto view = Segment::open(dir_, own->name(), 3, 0);
  ASSERT_TRUE(view.ok()) << view.error().message;
  own->unlink();
  EXPECT_FALSE(Segment::open(dir_, own->name(), 3, 0).ok());
  own->ring()[5] = std::byte{42};
  EXPECT_EQ((*view)->ring()[5], std::byte{42});
}

TEST_F(SharedMemory, a_segment_of_another_rank_or_generation_or_another_file_is_refused) {
  auto own = make(3, 0);
  EXPECT_EQ(Segment::open(dir_, own->name(), 4, 0).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Segment::open(dir_, own->name(), 3, 1).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(Segment::open(dir_, "../etc/passwd", 3, 0).error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(Segment::open(dir_, "absent", 3, 0).ok());
  const std::string other = dir_ + "/zeros";
  const int fd = ::open(other.c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(::ftruncate(fd, 8192), 0);
  ::close(fd);
  EXPECT_EQ(Segment::open(dir_, "zeros", 3, 0).error().code, ErrorCode::kCorrupt);
  ::unlink(other.c_str());
}

TEST_F(SharedMemory, segments_of_killed_processes_are_removed_and_those_in_use_stay) {
  const auto path = [this](const char* name) { return dir_ + "/lockstep-" + name; };
  for (const char* name : {"tag-g2-r0", "tag-g2-r7", "tag-g3-r0", "tag-g3-r1", "tag-g4-r0", "other-g2-r0"}) {
    ::close(::open(path(name).c_str(), O_CREAT | O_RDWR, 0600));
  }
  auto own = make(3, 0);
  own->unlink();
  for (const char* name : {"tag-g2-r0", "tag-g2-r7", "tag-g3-r0"}) {
    EXPECT_NE(::access(path(name).c_str(), F_OK), 0) << name;
  }
  for (const char* name : {"tag-g3-r1", "tag-g4-r0", "other-g2-r0"}) {
    EXPECT_EQ(::access(path(name).c_str(), F_OK), 0) << name;
    ::unlink(path(name).c_str());
  }
}

TEST(MemoryId, is_the_same_for_folders_of_one_file_system_and_for_no_others) {
  const std::uint64_t memory = memory_id("/dev/shm");
  EXPECT_NE(memory, 0u);
  EXPECT_EQ(memory_id("/dev/shm/."), memory);
  EXPECT_NE(memory_id("/proc"), memory);
  EXPECT_EQ(memory_id("/proc/self/no-such-folder"), 0u);
}

TEST_F(SharedMemory, bytes_come_out_in_order_round_and_round_the_ring) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto writer = make(1, 0, 4096);
  auto reader = make(1, 1, 4096);
  SharedSink sink(*writer, *reader);
  SharedSource source(*reader, *writer);
  std::uint8_t next_in = 0;
  std::uint8_t next_out = 0;
  size_t total = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint8_t> bytes(random() % 3000);
    for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::uint8_t>(next_in + k);
    const size_t half = bytes.size() / 2;
    const iovec pieces[2] = {{bytes.data(), half}, {bytes.data() + half, bytes.size() - half}};
    const IoResult written = sink.write(pieces);
    ASSERT_FALSE(written.ended);
    next_in = static_cast<std::uint8_t>(next_in + written.bytes);
    std::vector<std::byte> out(random() % 3000);
    const IoResult read = source.read(out);
    for (size_t k = 0; k < read.bytes; ++k)
      ASSERT_EQ(static_cast<std::uint8_t>(out[k]), static_cast<std::uint8_t>(next_out + k));
    next_out = static_cast<std::uint8_t>(next_out + read.bytes);
    total += read.bytes;
  }
  EXPECT_GT(total, 100'000U);
}

TEST_F(SharedMemory, counters_that_cannot_be_end_the_stream_and_touch_nothing) {
  auto writer = make(1, 0, 4096);
  auto reader = make(1, 1, 4096);
  SharedSink sink(*writer, *reader);
  SharedSource source(*reader, *writer);
  std::byte bytes[64] = {};
  const iovec piece{bytes, sizeof bytes};
  reader->header().consumed = 999'999;  // more than was written
  EXPECT_TRUE(sink.write({&piece, 1}).ended);
  reader->header().consumed = 0;
  writer->header().written = 999'999;  // more than the ring holds
  EXPECT_TRUE(source.read(bytes).ended);
}

TEST_F(SharedMemory, a_folder_without_room_or_that_is_not_there_is_an_error) {
  EXPECT_FALSE(Segment::create(dir_ + "/absent", "tag", 1, 0, 4096).ok());
}

}  // namespace
}  // namespace lockstep::trainer::comm
