#include "trainer/report/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lockstep::trainer::report {
namespace {

TEST(Report, operations_are_rounded_to_three_digits_and_a_unit) {
  EXPECT_EQ(format_flops(0), "0 FLOP");
  EXPECT_EQ(format_flops(4), "4 FLOP");
  EXPECT_EQ(format_flops(999.6), "1 kFLOP");
  EXPECT_EQ(format_flops(512000), "512 kFLOP");
  EXPECT_EQ(format_flops(24.31e9), "24.3 GFLOP");
  EXPECT_EQ(format_flops(2e15), "2e+03 TFLOP");
}

TEST(SpeedStatistics, are_those_of_tf_cnn_benchmarks) {
  // Speeds 10, 20, 40: mean over time 3*10/1.75, deviation 12.4722, median 20, deviations 10 0 20.
  const SpeedStatistics speed = speed_statistics(10, {1.0, 0.5, 0.25});
  EXPECT_EQ(speed.steps, 3U);
  EXPECT_NEAR(speed.mean, 30 / 1.75, 1e-12);
  EXPECT_NEAR(speed.standard_error, 12.472191289246 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(speed.median, 20, 1e-12);
  EXPECT_NEAR(speed.jitter, 1.4826 * 10, 1e-12);
}

TEST(SpeedStatistics, of_no_steps_are_zero_and_impossible_times_do_not_count) {
  EXPECT_EQ(speed_statistics(10, {}).mean, 0);
  EXPECT_EQ(speed_statistics(10, {0.0, -1.0, std::nan("")}).steps, 0U);
  EXPECT_NEAR(speed_statistics(10, {1.0, 0.5}).median, 15, 1e-12);
}

TEST(Throughput, leaves_out_the_warm_up_and_follows_the_rest) {
  Throughput throughput(100, 2);
  throughput.add(1, 32, 9.0);
  throughput.add(2, 32, 9.0);
  EXPECT_EQ(throughput.samples_per_second(), 0);
  EXPECT_EQ(throughput.eta_seconds(), 0);
  for (int step = 3; step <= 50; ++step) throughput.add(step, 32, 0.5);
  EXPECT_NEAR(throughput.samples_per_second(), 64, 1e-9);
  EXPECT_NEAR(throughput.eta_seconds(), 25, 1e-9);
  throughput.add(51, 32, 60.0);  // an evaluation in between
  EXPECT_GT(throughput.samples_per_second(), 50);
  EXPECT_NEAR(throughput.median_samples_per_second(), 64, 1e-9);
  throughput.add(100, 32, 0.5);
  EXPECT_EQ(throughput.eta_seconds(), 0);
}

TEST(Throughput, a_long_run_uses_no_more_memory_and_forgets_the_distant_past) {
  Throughput throughput(0, 0);
  for (int step = 1; step <= 5000; ++step) throughput.add(step, 1, step <= 4000 ? 1.0 : 0.1);
  EXPECT_EQ(throughput.statistics().steps, 1000U);
  EXPECT_NEAR(throughput.median_samples_per_second(), 10, 1e-9);
}

TEST(Report, lines_read_as_documented) {
  EXPECT_EQ(format_progress({120, 1000, 0, 2.34561, 1234.4, 42}),
            "step 120/1000  epoch 0  loss 2.3456  1234 samples/s  eta 0:42");
  EXPECT_EQ(format_progress({7, 0, 1, std::nan(""), 12.34, 0}), "step 7  epoch 1  loss nan  12.3 samples/s");
  EXPECT_EQ(format_progress({1, 10, 0, 1, 0, 0}), "step 1/10  epoch 0  loss 1.0000");
  EXPECT_EQ(format_benchmark_line(120, {10, 154.44, 0.72, 4.01, 154}, 2.3456),
            "120\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.346");
  const std::string dashes(64, '-');
  EXPECT_EQ(format_benchmark_total(308.27), dashes + "\ntotal images/sec: 308.27\n" + dashes);
}

TEST(Report, seconds_read_like_a_clock) {
  EXPECT_EQ(format_seconds(0), "0:00");
  EXPECT_EQ(format_seconds(12.4), "0:12");
  EXPECT_EQ(format_seconds(3725), "1:02:05");
  EXPECT_EQ(format_seconds(std::nan("")), "?");
  EXPECT_EQ(format_seconds(-1), "?");
}

TEST(Report, records_keep_their_order_and_say_null_for_what_is_no_number) {
  const Record record{
      {"digest", "ab\"c"}, {"steps", std::int64_t{3}}, {"loss", 0.5}, {"ok", true}, {"worst", std::nan("")}};
  EXPECT_EQ(format_result(record), R"(result {"digest":"ab\"c","steps":3,"loss":0.5,"ok":true,"worst":null})");
  EXPECT_EQ(format_record({{"text", std::string("\xff\n")}}).find('\n'), std::string::npos);
}

TEST(MetricsFile, appends_a_line_per_record_across_restarts) {
  std::string name = "/tmp/lockstep-metrics-XXXXXX";
  ::close(::mkstemp(name.data()));
  for (std::int64_t step = 1; step <= 2; ++step) {
    auto file = MetricsFile::open(name);
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_TRUE(
        (*file)->write_step({.step = step, .loss = 1.5, .samples_per_second = 10}, 0.25, {0.5, 1, 2, 4, 8}).ok());
  }
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  EXPECT_EQ(text.str(),
            "{\"kind\":\"step\",\"step\":1,\"epoch\":0,\"loss\":1.5,\"samples_per_second\":10.0,\"seconds\":0.25,"
            "\"load\":0.5,\"forward\":1.0,\"backward\":2.0,\"wait\":4.0,\"commit\":8.0}\n"
            "{\"kind\":\"step\",\"step\":2,\"epoch\":0,\"loss\":1.5,\"samples_per_second\":10.0,\"seconds\":0.25,"
            "\"load\":0.5,\"forward\":1.0,\"backward\":2.0,\"wait\":4.0,\"commit\":8.0}\n");
  ::unlink(name.c_str());
}

TEST(MetricsFile, a_path_that_cannot_be_opened_and_a_full_disk_are_errors) {
  EXPECT_EQ(MetricsFile::open("/no/such/folder/m.jsonl").error().code, ErrorCode::kNotFound);
  auto full = MetricsFile::open("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ((*full)->write({{"a", true}}).error().code, ErrorCode::kExhausted);
}

}  // namespace
}  // namespace lockstep::trainer::report
