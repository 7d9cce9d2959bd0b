#include "operator/cli/bench_result.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::cli::bench_result_test {
namespace {

const char* const kResult =
    R"({"model":"mlp","timed_steps":100,"images_per_second":50.0,"images_per_second_error":0.5,)"
    R"("images_per_second_jitter":2.0,"compute_images_per_second":60.0,"input_stall_percent":10.0,)"
    R"("exposed_communication_percent":3.0,"bus_bytes_per_second":2e9,"percent_of_peak":40.0,)"
    R"("memory_bytes":4096,"precision":"float32","transport":"shared memory"})";

RunResult run_of(double speed) {
  return {.timed_steps = 100,
          .speed = speed,
          .error = 0.5,
          .jitter = 2,
          .compute_speed = speed + 10,
          .input_stall_percent = 10,
          .exposed_communication_percent = 3,
          .bus_bandwidth = 2e9,
          .percent_of_peak = 40,
          .memory_bytes = 4096,
          .precision = "float32",
          .transport = "shared memory"};
}

CellResult cell_of(const std::string& model, int workers, std::vector<double> speeds) {
  CellResult result{.settings = settings_of({model, "synthetic", workers}, {}, "1.0"), .runs = {}};
  for (const double speed : speeds) result.runs.push_back(run_of(speed));
  return result;
}

TEST(BenchResult, is_the_last_result_line_of_a_log) {
  // What another line quotes is no result, even if it comes later.
  const auto run = parse_run(std::string("result {\"old\":1}\nresult ") + kResult + "\nit said result {\"a\":1}\n");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->timed_steps, 100);
  EXPECT_EQ(run->speed, 50);
  EXPECT_EQ(run->compute_speed, 60);
  EXPECT_EQ(run->exposed_communication_percent, 3);
  EXPECT_EQ(run->bus_bandwidth, 2e9);
  EXPECT_EQ(run->percent_of_peak, 40);
  EXPECT_EQ(run->transport, "shared memory");
}

TEST(BenchResult, a_log_without_a_whole_result_is_an_error) {
  for (const std::string log : {"", "step 1\n", "result {", "result {\"timed_steps\":3}\n", "say result {\"a\":1}\n",
                                "result {\"timed_steps\":\"x\"}"}) {
    EXPECT_EQ(parse_run(log).error().code, ErrorCode::kInvalid) << log;
  }
}

TEST(BenchResult, of_a_cell_survives_its_file) {
  const CellResult cell = cell_of("mlp", 2, {90, 110});
  const auto read = parse_cell(to_json(cell).dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->settings, cell.settings);
  EXPECT_EQ(to_json(*read), to_json(cell));
  for (const char* text : {"", "[]", "{}", R"({"settings":{},"runs":[{}]})", R"({"settings":1,"runs":[]})"}) {
    EXPECT_FALSE(parse_cell(text).ok()) << text;
  }
}

TEST(BenchResult, of_other_settings_is_not_taken_for_this_one) {
  const Cell cell{"mlp", "synthetic", 2};
  const auto stored = settings_of(cell, {}, "1.0");
  EXPECT_TRUE(same_settings(stored, settings_of(cell, {}, "1.0")).ok());
  EXPECT_EQ(same_settings(stored, settings_of(cell, {.batch_size = 64}, "1.0")).error().message,
            "batchPerWorker is 32 there, and 64 here");
  EXPECT_FALSE(same_settings(nlohmann::json::object(), stored).ok());
}

TEST(BenchResult, efficiency_is_the_speed_over_that_of_as_many_single_workers) {
  const auto rows =
      rows_of({cell_of("mlp", 1, {90, 110}), cell_of("mlp", 4, {320}), cell_of("other", 2, {10, 10, 40})});
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_NEAR(rows[0].speed, 100, 1e-9);
  EXPECT_NEAR(rows[0].error, 10 / std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(*rows[0].efficiency, 1, 1e-9);
  EXPECT_NEAR(*rows[1].single, 100, 1e-9);
  EXPECT_NEAR(*rows[1].efficiency, 0.8, 1e-9);
  EXPECT_NEAR(rows[1].error, 0.5, 1e-9);  // one run: that of its steps
  EXPECT_NEAR(rows[2].speed, 20, 1e-9);
  EXPECT_NEAR(rows[2].error, std::sqrt(200.0) / std::sqrt(3.0), 1e-9);
  EXPECT_FALSE(rows[2].single || rows[2].efficiency);  // another model's single worker does not count
}

TEST(BenchResult, the_table_has_what_a_speed_must_be_quoted_with) {
  EXPECT_EQ(
      bench_table(rows_of({cell_of("mlp", 1, {100}), cell_of("mlp", 2, {150})})),
      "MODEL  DATA       WORKERS  BATCH/WORKER  PRECISION  TRANSPORT      IMAGES/SEC  +/-  JITTER  COMPUTE  INPUT "
      "STALL  EXPOSED COMM.  BUS GB/S  OF PEAK  T_1    EFFICIENCY\n"
      "mlp    synthetic  1        32            float32    shared memory  100.0       0.5  2.0     110.0    10.0 "
      "%       3.0 %          2.00      40.0 %   100.0  100.0 %\n"
      "mlp    synthetic  2        32            float32    shared memory  150.0       0.5  2.0     160.0    10.0 "
      "%       3.0 %          2.00      40.0 %   100.0  75.0 %\n");
}

TEST(BenchResult, csv_and_json_have_the_same_numbers) {
  CellResult cell = cell_of("mlp", 2, {150});
  cell.settings["data"] = "/a,\"b\"";
  const auto rows = rows_of({cell});
  EXPECT_EQ(bench_csv(rows),
            "model,data,workers,threads,batch_per_worker,precision,transport,runs,images_per_second,standard_error,"
            "jitter,compute_images_per_second,input_stall_percent,exposed_communication_percent,"
            "bus_bytes_per_second,percent_of_peak,t_1,efficiency\n"
            "mlp,\"/a,\"\"b\"\"\",2,1,32,float32,shared memory,1,150,0.5,2,160,10,3,2e+09,40,,\n");
  const auto json = bench_json(rows);
  EXPECT_EQ(json[0]["imagesPerSecond"], 150);
  EXPECT_EQ(json[0]["data"], "/a,\"b\"");
  EXPECT_TRUE(json[0]["t1"].is_null());
  EXPECT_EQ(bench_json(rows_of({cell_of("mlp", 1, {100})}))[0]["efficiency"], 1);
}

}  // namespace
}  // namespace lockstep::cli::bench_result_test
