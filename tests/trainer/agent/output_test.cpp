#include "trainer/agent/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

namespace lockstep::trainer::agent {
namespace {

TEST(LineTagger, whole_lines_get_the_tag_however_they_arrive) {
  LineTagger tagger("[3] ");
  std::string out;
  tagger.feed("one\ntw", out);
  EXPECT_EQ(out, "[3] one\n");
  tagger.feed("o\n\nthree", out);
  EXPECT_EQ(out, "[3] one\n[3] two\n[3] \n");
  tagger.finish(out);
  EXPECT_EQ(out, "[3] one\n[3] two\n[3] \n[3] three\n");
}

TEST(LineTagger, a_line_without_an_end_is_cut_at_64_KiB) {
  LineTagger tagger("[0] ");
  std::string out;
  tagger.feed(std::string(LineTagger::kMaxLine + 10, 'x') + "\n", out);
  EXPECT_EQ(out, "[0] " + std::string(LineTagger::kMaxLine, 'x') + "\n[0] xxxxxxxxxx\n");
}

TEST(LineTagger, a_line_of_exactly_64_KiB_is_one_line) {
  LineTagger tagger("[0] ");
  std::string out;
  tagger.feed(std::string(LineTagger::kMaxLine, 'x') + "\ny\n", out);
  EXPECT_EQ(out, "[0] " + std::string(LineTagger::kMaxLine, 'x') + "\n[0] y\n");
}

TEST(Output, a_reader_that_does_not_read_takes_the_room_and_gives_it_back) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  const UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::size_t sent = 0, received = 0;
  {
    Output output(writing.get(), wake.get());
    const std::string block(64 * 1024, 'x');
    while (output.has_room()) {
      output.write(block);
      sent += block.size();
      ASSERT_LT(sent, 16 * Output::kRoom) << "nothing is read, so this must end";
      ::poll(nullptr, 0, 1);  // the writer takes one batch into its hands before the pipe is full
    }
    std::string buffer(256 * 1024, '\0');
    while (received < sent) {
      const ssize_t length = ::read(reading.get(), buffer.data(), buffer.size());
      ASSERT_GT(length, 0);
      received += static_cast<std::size_t>(length);
    }
    pollfd woken{wake.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&woken, 1, 5000), 1);
    EXPECT_TRUE(output.has_room());
  }
  EXPECT_EQ(received, sent);
}

TEST(Output, what_is_queued_is_written_before_the_end) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  { Output(writing.get(), -1).write("last words\n"); }
  char buffer[64];
  EXPECT_EQ(::read(reading.get(), buffer, sizeof buffer), 11);
}

TEST(Output, a_reader_that_is_gone_does_not_stop_anything) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writing(ends[1]);
  ::close(ends[0]);
  ::signal(SIGPIPE, SIG_IGN);
  Output output(writing.get(), -1);
  for (int i = 0; i < 100; ++i) output.write(std::string(64 * 1024, 'x'));
}

}  // namespace
}  // namespace lockstep::trainer::agent
