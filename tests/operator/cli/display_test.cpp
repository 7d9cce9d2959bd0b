#include "operator/cli/display.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::cli::display_test {
namespace {

using namespace std::chrono_literals;

class Displays : public testing::Test {
 protected:
  void SetUp() override { out_ = open_memstream(&text_, &size_); }
  void TearDown() override {
    fclose(out_);
    free(text_);
  }
  std::string text() {
    fflush(out_);
    return std::string(text_, size_);
  }

  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* out_ = nullptr;
  ManualClock clock_;
};

DisplayedState running(std::int64_t step) {
  DisplayedState now;
  now.state = "Running";
  now.ready = "4/4";
  now.step = step;
  now.total_steps = 1000;
  now.loss = 2.34567;
  now.samples_per_second = 1234.5;
  now.eta_seconds = 42;
  now.restarts = 1;
  now.elapsed_seconds = 12;
  return now;
}

TEST(ProgressLine, says_everything_and_fits_the_width) {
  EXPECT_EQ(
      progress_line(running(500), 200, false),
      "0:12 Running  ##########----------  50%  step 500/1000  loss 2.3457  1234 samples/s  eta 0:42  restarts 1");
  EXPECT_EQ(progress_line(running(500), 20, false), "0:12 Running  #####");
  DisplayedState waiting;
  waiting.state = "Pending";
  waiting.note = "waiting for slots 2, 3 to connect";
  EXPECT_EQ(progress_line(waiting, 80, false), "0:00 Pending  waiting for slots 2, 3 to connect");
}

TEST(ProgressLine, the_plain_form_has_no_bar) {
  EXPECT_EQ(plain_line(running(500)), "Running     step 500/1000  loss 2.3457  1234 samples/s  eta 0:42  restarts 1");
}

TEST_F(Displays, lines_come_with_news_and_then_at_most_every_few_seconds) {
  const auto display = make_display(DisplayMode::kLines, out_, clock_, 5s);
  display->update(running(1));
  display->update(running(2));
  clock_.advance(5s);
  display->update(running(3));
  DisplayedState news = running(4);
  news.state = "Restarting";
  display->update(news);
  EXPECT_EQ(text(),
            "Running     step 1/1000  loss 2.3457  1234 samples/s  eta 0:42  restarts 1\n"
            "Running     step 3/1000  loss 2.3457  1234 samples/s  eta 0:42  restarts 1\n"
            "Restarting  step 4/1000  loss 2.3457  1234 samples/s  eta 0:42  restarts 1\n");
}

TEST_F(Displays, the_redrawn_line_goes_away_for_messages_and_at_the_end) {
  const auto display = make_display(DisplayMode::kTerminal, out_, clock_);
  display->update(running(1));
  display->say("hello");
  display->finish();
  const std::string drawn = text();
  EXPECT_EQ(drawn.find("\r\x1b[K0:12 Running"), 0U);
  EXPECT_NE(drawn.find("\r\x1b[Khello\n\r\x1b[K0:12 Running"), std::string::npos);
  EXPECT_TRUE(drawn.ends_with("\r\x1b[K"));
}

TEST_F(Displays, quiet_is_quiet_and_json_is_json) {
  const auto quiet = make_display(DisplayMode::kQuiet, out_, clock_);
  quiet->update(running(1));
  quiet->say("hello");
  EXPECT_EQ(text(), "");
  const auto lines = make_display(DisplayMode::kJson, out_, clock_);
  lines->update(running(1));
  lines->say("hello");
  EXPECT_EQ(text(),
            "{\"elapsedSeconds\":12.0,\"etaSeconds\":42.0,\"loss\":2.34567,\"ready\":\"4/4\",\"restarts\":1,"
            "\"samplesPerSecond\":1234.5,\"state\":\"Running\",\"step\":1,\"totalSteps\":1000}\n");
}

}  // namespace
}  // namespace lockstep::cli::display_test
