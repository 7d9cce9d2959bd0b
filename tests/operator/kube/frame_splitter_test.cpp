// Frames of a watch in protobuf, in pieces of every size.
#include "operator/kube/frame_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::kube {
namespace {

std::string frame(const std::string& bytes) {
  std::string head(4, '\0');
  head[2] = static_cast<char>(bytes.size() >> 8U);
  head[3] = static_cast<char>(bytes.size());
  return head + bytes;
}

struct Seen {
  std::vector<std::string> frames;
  bool operator()(std::string_view bytes) {
    frames.emplace_back(bytes);
    return bytes != "end";
  }
};

TEST(FrameSplitter, pieces_of_any_size_give_the_same_frames) {
  const std::string bytes = frame("one") + frame(std::string(300, 'x')) + frame("") + frame("two");
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    FrameSplitter splitter;
    Seen seen;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_TRUE(splitter.feed(std::string_view(bytes).substr(at, size), seen));
    }
    EXPECT_EQ(seen.frames, (std::vector<std::string>{"one", std::string(300, 'x'), "two"})) << "pieces of " << size;
    EXPECT_EQ(splitter.dropped(), 0);
  }
}

TEST(FrameSplitter, a_frame_that_is_too_long_is_dropped_alone) {
  const std::string bytes = frame("12345678") + frame("123456789") + frame("ok");
  for (const std::size_t size : {1UL, 7UL, bytes.size()}) {
    FrameSplitter splitter(8);
    Seen seen;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      EXPECT_TRUE(splitter.feed(std::string_view(bytes).substr(at, size), seen));
    }
    EXPECT_EQ(seen.frames, (std::vector<std::string>{"12345678", "ok"}));
    EXPECT_EQ(splitter.dropped(), 1);
  }
}

TEST(FrameSplitter, ends_when_its_reader_has_enough) {
  FrameSplitter splitter;
  Seen seen;
  EXPECT_FALSE(splitter.feed(frame("a") + frame("end") + frame("b"), seen));
  EXPECT_EQ(seen.frames, (std::vector<std::string>{"a", "end"}));
}

}  // namespace
}  // namespace lockstep::kube
