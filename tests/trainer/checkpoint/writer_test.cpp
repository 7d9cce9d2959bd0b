#include "trainer/checkpoint/writer.h"

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/trainer/checkpoint/small_model.h"

namespace lockstep::trainer::checkpoint {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Waits until all files of the write in progress are there and only its confirmation is missing.
Result<bool> await_files(Writer& of) {
  static const SmallModel next = SmallModel::of(1);
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (true) {
    // An overrun is an error; a wait for a confirmation is none.
    const auto left_out = of.write({.step = 99, .state = next.state()}, Busy::kSkip, {});
    if (left_out.ok() || std::chrono::steady_clock::now() > end) return left_out;
    std::this_thread::yield();
  }
}

class WriterTest : public CheckpointTest {};

TEST_F(WriterTest, nothing_can_be_started_from_before_a_later_step_confirms_it) {
  const auto to = writer(1);
  SmallModel model = SmallModel::of(4);
  ASSERT_TRUE(to->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  model = SmallModel::of(9);  // training continues in the same memory
  to->confirm(10);            // the same step is no proof
  EXPECT_EQ(to->flush(milliseconds(300)).error().code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(to->flush({}).error().message,
              HasSubstr("step-10.g1 is still being written after 0 s, or waits for its confirmation"));
  EXPECT_TRUE(list_valid(dir_).value().empty());
  EXPECT_FALSE(to->poll().has_value());

  to->confirm(11);
  const auto published = to->flush(seconds(20));
  ASSERT_TRUE(published.ok()) << published.error().message;
  ASSERT_TRUE(published->has_value());
  EXPECT_EQ((*published)->name, "step-10.g1");
  EXPECT_EQ((*published)->digest, state_digest(SmallModel::of(4).state()).value());
  SmallModel loaded;
  ASSERT_TRUE(load(dir_, "step-10.g1", identity_, loaded.buffers()).ok());
  EXPECT_EQ(loaded, SmallModel::of(4));
  const auto polled = to->poll();
  ASSERT_TRUE(polled.has_value());
  EXPECT_EQ((*polled)->step, 10);
  EXPECT_FALSE(to->poll().has_value());
}

TEST_F(WriterTest, a_write_keeps_its_generation_and_a_step_of_the_next_confirms_it) {
  const auto to = writer(1);
  const SmallModel model = SmallModel::of(1);
  ASSERT_TRUE(to->write({.step = 1, .state = model.state()}, Busy::kSkip, {}).value());
  to->set_generation(2);
  to->confirm(2);
  ASSERT_TRUE(to->flush(seconds(20)).ok());
  ASSERT_TRUE(to->write({.step = 2, .state = model.state()}, Busy::kWait, seconds(20)).value());
  to->confirm(3);
  const auto published = to->flush(seconds(20));
  ASSERT_TRUE(published.ok());
  EXPECT_EQ((*published)->generation, 2);
  EXPECT_THAT(folders(), ElementsAre("step-1.g1", "step-2.g2"));
  EXPECT_EQ(verify(dir_, "step-1.g1").value().generation, 1);
  EXPECT_EQ(verify(dir_, "step-2.g2").value().generation, 2);
}

TEST_F(WriterTest, a_write_that_overruns_is_reported_and_a_wait_for_confirmation_is_none) {
  const auto to = writer(1);
  std::vector<std::byte> bytes(std::size_t{64} << 20);  // the thread needs a while for its digest alone
  const State large{.parameters = {{"w", DataType::kUint8, {static_cast<std::int64_t>(bytes.size())}, bytes}},
                    .optimizer = {}};
  ASSERT_TRUE(to->write({.step = 1, .state = large}, Busy::kSkip, {}).value());
  EXPECT_EQ(to->write({.step = 2, .state = large}, Busy::kSkip, {}).error().code, ErrorCode::kDeadlineExceeded);
  const auto left_out = await_files(*to);
  ASSERT_TRUE(left_out.ok()) << "all files are written, and only their confirmation is missing";
  EXPECT_FALSE(*left_out);
}

TEST_F(WriterTest, a_second_write_is_left_out_or_waits_as_asked) {
  const auto to = writer(1);
  const SmallModel model = SmallModel::of(1);
  ASSERT_TRUE(to->write({.step = 1, .state = model.state()}, Busy::kSkip, {}).value());
  EXPECT_FALSE(to->write({.step = 2, .state = model.state()}, Busy::kSkip, seconds(20)).value());
  EXPECT_EQ(to->write({.step = 2, .state = model.state()}, Busy::kWait, milliseconds(20)).error().code,
            ErrorCode::kDeadlineExceeded);
  to->confirm(2);
  EXPECT_TRUE(to->write({.step = 2, .state = model.state()}, Busy::kWait, seconds(20)).value());
  to->confirm(3);
  ASSERT_TRUE(to->flush(seconds(20)).ok());
  EXPECT_THAT(folders(), ElementsAre("step-1.g1", "step-2.g1"));
}

TEST_F(WriterTest, ending_before_the_confirmation_leaves_nothing_behind) {
  {
    const auto to = writer(1);
    const SmallModel model = SmallModel::of(1);
    ASSERT_TRUE(to->write({.step = 1, .state = model.state()}, Busy::kSkip, {}).value());
  }
  EXPECT_TRUE(folders().empty());
}

TEST_F(WriterTest, close_says_whether_the_thread_is_still_writing) {
  const auto to = writer(1);
  EXPECT_TRUE(writer(1)->close(seconds(20))) << "nothing to do";
  std::vector<std::byte> bytes(std::size_t{64} << 20);  // the thread needs a while for its digest alone
  const State large{.parameters = {{"w", DataType::kUint8, {static_cast<std::int64_t>(bytes.size())}, bytes}},
                    .optimizer = {}};
  ASSERT_TRUE(to->write({.step = 1, .state = large}, Busy::kSkip, {}).value());
  EXPECT_FALSE(to->close({}));
  EXPECT_TRUE(to->close(seconds(60)));
  EXPECT_TRUE(folders().empty()) << "it was not confirmed";
}

TEST_F(WriterTest, a_finished_checkpoint_is_never_written_again_and_an_unfinished_one_is) {
  save(10, 1, 1);
  const auto to = writer(1);
  const SmallModel model = SmallModel::of(2);
  ASSERT_TRUE(to->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  to->confirm(11);
  const auto again = to->flush(seconds(20));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(verify(dir_, "step-10.g1").value().digest, state_digest(SmallModel::of(1).state()).value());
  std::filesystem::create_directories(dir_ + "/step-11.g1");
  write(path("step-11.g1", kModelFile), "left by a killed process");
  EXPECT_EQ(save(*to, 11, 2), "step-11.g1");
  EXPECT_TRUE(verify(dir_, "step-11.g1").ok());
}

TEST_F(WriterTest, one_among_others_depends_on_none_of_them_and_disturbs_none) {
  const SmallModel model = SmallModel::of(4);
  const auto among_others = [&] {
    return Writer::create({.directory = dir_, .identity = identity_, .generation = 1, .among_others = true}).value();
  };
  auto dies = among_others();
  const auto lives = among_others(), third = among_others();
  ASSERT_TRUE(dies->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  while (folders().empty()) std::this_thread::yield();
  ASSERT_TRUE(lives->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  ASSERT_TRUE(third->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  ASSERT_TRUE(await_files(*third).ok()) << "one that begins after another has published is told that it exists";
  lives->confirm(11);
  ASSERT_TRUE(lives->flush(seconds(20)).ok());
  dies.reset();  // before it was confirmed
  EXPECT_EQ(verify(dir_, "step-10.g1").value().step, 10);
  third->confirm(11);
  ASSERT_TRUE(third->flush(seconds(20)).ok());
  EXPECT_EQ(verify(dir_, "step-10.g1").value().step, 10);
  ASSERT_TRUE(lives->write({.step = 10, .state = model.state()}, Busy::kWait, seconds(20)).value());
  EXPECT_EQ(lives->flush(seconds(20)).error().code, ErrorCode::kAlreadyExists);
}

TEST_F(WriterTest, a_writer_among_others_finishes_the_checkpoint_of_a_killed_one) {
  std::filesystem::create_directories(dir_ + "/step-11.g1");
  write(path("step-11.g1", kModelFile), "left by a killed process");
  const auto to =
      Writer::create({.directory = dir_, .identity = identity_, .generation = 1, .among_others = true}).value();
  EXPECT_EQ(save(*to, 11, 2), "step-11.g1");
  EXPECT_TRUE(verify(dir_, "step-11.g1").ok());
}

TEST_F(WriterTest, a_writer_among_others_lets_them_finish_an_earlier_step) {
  const auto among_others = [&](int keep) {
    return Writer::create(
               {.directory = dir_, .identity = identity_, .generation = 1, .keep = keep, .among_others = true})
        .value();
  };
  const SmallModel model = SmallModel::of(4);
  const auto behind = among_others(1), ahead = among_others(1);
  ASSERT_TRUE(behind->write({.step = 10, .state = model.state()}, Busy::kSkip, {}).value());
  while (folders().empty()) std::this_thread::yield();
  EXPECT_EQ(save(*ahead, 11, 2), "step-11.g1");
  behind->confirm(11);
  const auto saved = behind->flush(seconds(20));
  ASSERT_TRUE(saved.ok()) << saved.error().message;
  EXPECT_THAT(folders(), ElementsAre("step-10.g1", "step-11.g1"));
}

TEST_F(WriterTest, old_checkpoints_go_when_a_new_one_is_published) {
  const auto to = writer(1, 2);
  for (const int step : {1, 2, 3, 4}) save(*to, step, step);
  EXPECT_THAT(folders(), ElementsAre("step-3.g1", "step-4.g1"));
}

TEST_F(WriterTest, snapshots_that_contradict_themselves_are_refused_at_once) {
  const auto to = writer(1);
  const SmallModel model = SmallModel::of(1);
  State twice = model.state();
  twice.optimizer[0].name = twice.parameters[0].name;
  EXPECT_EQ(to->write({.step = 1, .state = twice}, Busy::kSkip, {}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(to->write({.step = 1, .metadata = "[]", .state = model.state()}, Busy::kSkip, {}).error().code,
            ErrorCode::kInvalid);
  EXPECT_EQ(to->write({.step = -1, .state = model.state()}, Busy::kSkip, {}).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(save(*to, 1, 1), "step-1.g1") << "and it continues";
}

TEST_F(WriterTest, a_directory_that_cannot_be_made_is_an_error_at_the_start) {
  write(dir_ + "/file", "x");
  const auto made = Writer::create({.directory = dir_ + "/file/below", .identity = identity_});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message, HasSubstr(dir_ + "/file/below"));
}

// Saves a small checkpoint and then one that does not fit; returns the mistake, or nothing.
std::string fill_up(const std::string& dir, const Identity& identity, const std::function<void()>& shrink) {
  auto made = Writer::create({.directory = dir, .job_uid = "uid", .identity = identity, .generation = 1});
  if (!made) return made.error().message;
  Writer& to = **made;
  SmallModel small = SmallModel::of(1);
  (void)to.write({.step = 1, .state = small.state()}, Busy::kSkip, {});
  to.confirm(2);
  if (const auto first = to.flush(seconds(20)); !first.ok()) return first.error().message;
  shrink();
  std::vector<float> big(4'000'000, 1.0F);
  State state = small.state();
  state.optimizer.push_back({"big", DataType::kFloat32, {4'000'000}, std::as_bytes(std::span(big))});
  (void)to.write({.step = 2, .state = state}, Busy::kSkip, {});
  to.confirm(3);
  const auto second = to.flush(seconds(20));
  if (second.ok()) return "the second one fitted";
  if (second.error().code != ErrorCode::kExhausted) return "code " + std::string(error_code_name(second.error().code));
  const std::string& text = second.error().message;
  if (text.find("optimizer.safetensors") == std::string::npos) return text;
  if (text.find("the last good checkpoint, step-1.g1, stays") == std::string::npos) return text;
  if (std::filesystem::exists(dir + "/step-2.g1")) return "the partial folder is still there";
  SmallModel loaded;
  if (const auto first = load(dir, "step-1.g1", identity, loaded.buffers()); !first.ok()) return first.error().message;
  if (!(loaded == small)) return "the first one changed";
  (void)to.write({.step = 3, .state = small.state()}, Busy::kSkip, {});
  to.confirm(4);
  if (const auto third = to.flush(seconds(20)); !third.ok()) return "afterwards: " + third.error().message;
  return "";
}

TEST_F(WriterTest, a_file_that_may_not_grow_fails_the_write_and_keeps_the_last_good_one) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string wrong = fill_up(dir_, identity_, [&] {
    rlimit low = before;
    low.rlim_cur = 1 << 20;
    ::setrlimit(RLIMIT_FSIZE, &low);
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(wrong, "");
}

TEST_F(WriterTest, a_full_disk_fails_the_write_and_keeps_the_last_good_one) {
  // A small file system in a mount namespace of a child: it ends with the child.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", dir_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      ::_exit(77);
    }
    const std::string wrong = fill_up(dir_, identity_, [] {});
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting needs root";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace lockstep::trainer::checkpoint
