// What a training process prints and writes for people and tools. That is progress lines, the lines of
// tf_cnn_benchmarks, the `result {...}` line and a file of JSON lines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "operator/base/result.h"
#include "trainer/report/benchmark.h"
#include "trainer/report/line_file.h"
#include "trainer/report/throughput.h"

namespace lockstep::trainer::report {

struct ProgressLine {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;  // 0: not known
  std::int64_t epoch = 0;
  double loss = 0;
  double samples_per_second = 0;
  double eta_seconds = 0;  // 0: not known
};

// "step 120/1000  epoch 0  loss 2.3456  1234 samples/s  eta 0:42".
std::string format_progress(const ProgressLine& line);

// "12" -> "0:12", 3725 -> "1:02:05"; at least minutes and seconds.
std::string format_seconds(double seconds);

// Multiplications and additions: "4 FLOP", "512 kFLOP", "24.3 GFLOP".
std::string format_flops(double flops);

// "120\timages/sec: 154.4 +/- 0.7 (jitter = 4.0)\t2.346", the line of tf_cnn_benchmarks.
std::string format_benchmark_line(std::int64_t step, const SpeedStatistics& speed, double loss);
// 64 dashes, "total images/sec: 308.27", 64 dashes; `mean` is over all ranks.
std::string format_benchmark_total(double mean);

// Keys and values of one JSON object, in the order given. Numbers that JSON cannot say (NaN, infinity) become null.
using Value = std::variant<std::string, double, std::int64_t, bool>;
using Record = std::vector<std::pair<std::string, Value>>;

// One line without its newline.
std::string format_record(const Record& record);
// "result {...}": the last line of a finished run, for tools; nothing else of ours starts with this word.
std::string format_result(const Record& record);

// A file of one JSON object per line, appended, so a restarted run continues in the same file. A step may appear twice
// after a restart: the later line counts.
class MetricsFile {
 public:
  // kUnavailable, kForbidden, kNotFound: it cannot be opened.
  static Result<std::unique_ptr<MetricsFile>> open(const std::string& path);

  // Appends the line whole with one write. kExhausted: the disk is full; kUnavailable: other failures. One thread.
  Status write(const Record& record);
  // {"kind":"step","step":..,"epoch":..,"loss":..,"samples_per_second":..,"seconds":..} of a committed step, and its
  // parts "load", "forward", "backward", "wait" and "commit" in seconds.
  Status write_step(const ProgressLine& line, double seconds, const StepParts& parts);

 private:
  explicit MetricsFile(std::unique_ptr<LineFile> file) : file_(std::move(file)) {}
  std::unique_ptr<LineFile> file_;
};

}  // namespace lockstep::trainer::report
