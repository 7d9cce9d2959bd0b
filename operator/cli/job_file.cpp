#include "operator/cli/job_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "operator/api/validate.h"

namespace lockstep::cli {
namespace {

constexpr size_t kLargest = 1 << 20;

Error unreadable(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT   ? ErrorCode::kNotFound
                         : error == EACCES ? ErrorCode::kForbidden
                                           : ErrorCode::kUnavailable;
  return fail(code, fmt::format("cannot read {}: {}", path, strerror(error)));
}

Result<std::string> read_text(const std::string& path) {
  const bool standard_input = path == "-";
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return unreadable(path, errno);
  struct stat info {};
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    close(fd);
    return fail(ErrorCode::kInvalid, path + " is a folder, not a job file");
  }
  std::string text;
  std::array<char, 16 * 1024> block{};
  ssize_t got = 0;
  while (text.size() <= kLargest && ((got = read(fd, block.data(), block.size())) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0) text.append(block.data(), static_cast<size_t>(got));
  }
  const int error = errno;
  if (!standard_input) close(fd);
  if (got < 0) return unreadable(path, error);
  if (text.size() > kLargest) return fail(ErrorCode::kInvalid, path + " is larger than 1 MiB: not a job file");
  return text;
}

}  // namespace

Result<CheckedJob> read_checked_job(const std::string& path) {
  LOCKSTEP_TRY(const std::string text, read_text(path));
  api::JobFile file = api::read_job_file(text);
  CheckedJob result;
  for (const api::Problem& problem : file.problems) {
    result.problems.push_back(
        problem.at.line > 0 ? fmt::format("{}:{}:{}: {}", path, problem.at.line, problem.at.column, problem.text())
                            : fmt::format("{}: {}", path, problem.text()));
  }
  result.job = std::move(file.json);
  return result;
}

Result<nlohmann::json> read_valid_job(const std::string& path) {
  LOCKSTEP_TRY(CheckedJob file, read_checked_job(path));
  if (!file.problems.empty()) return fail(ErrorCode::kInvalid, fmt::format("{}", fmt::join(file.problems, "\n")));
  return std::move(file.job);
}

std::vector<std::string> problems_of(const nlohmann::json& job) {
  std::vector<std::string> result;
  for (const api::Problem& problem : api::validate(job)) result.push_back(problem.text());
  return result;
}

}  // namespace lockstep::cli
