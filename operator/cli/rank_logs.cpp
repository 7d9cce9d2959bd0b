#include "operator/cli/rank_logs.h"

#include "operator/base/number.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostFiles = 1024;  // ranks of one machine
constexpr size_t kLongestSample = 64 * 1024;

}  // namespace

std::optional<TaggedLine> parse_tagged(std::string_view line) {
  if (!line.starts_with('[')) return std::nullopt;
  const auto end = line.find("] ");
  if (end == line.npos) return std::nullopt;
  const auto rank = as_number<int>(line.substr(1, end - 1));
  if (!rank || *rank < 0) return std::nullopt;
  return TaggedLine{*rank, line.substr(end + 2)};
}

void RankLogs::add(std::string_view line) {
  const auto tagged = parse_tagged(line);
  if (!tagged) return;
  auto file = files_.find(tagged->rank);
  if (file == files_.end() && files_.size() < kMostFiles) {
    const std::string path = folder_ + "/rank-" + std::to_string(tagged->rank) + ".log";
    std::FILE* opened = std::fopen(path.c_str(), "ae");
    if (opened != nullptr) file = files_.emplace(tagged->rank, opened).first;
  }
  if (file != files_.end()) {
    std::fwrite(tagged->text.data(), 1, tagged->text.size(), file->second.get());
    std::fputc('\n', file->second.get());
    std::fflush(file->second.get());  // people read it while it grows
  }
  if (tagged->rank == 0) listen_to_rank_0(tagged->text);
}

void RankLogs::listen_to_rank_0(std::string_view text) {
  if (in_sample_) {
    if (text == "end of sample") {
      sample_ = growing_;
      in_sample_ = false;
    } else if (growing_.size() < kLongestSample) {
      growing_.append(text).push_back('\n');
    }
    return;
  }
  if (text.starts_with("sample of ") && text.ends_with(" characters:")) {
    in_sample_ = true;
    growing_.clear();
    return;
  }
  long long step = 0;
  double loss = 0;
  // "eval step 200  held-out loss 1.9876"
  if (text.starts_with("eval step ") &&
      std::sscanf(std::string(text).c_str(), "eval step %lld held-out loss %lf", &step, &loss) == 2) {
    held_out_.push_back({step, loss});
  }
}

}  // namespace lockstep::cli
