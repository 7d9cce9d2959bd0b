#include "trainer/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>

#include "trainer/core/random.h"

namespace lockstep::trainer::data {

namespace {

namespace fs = std::filesystem;

Error cannot_read(const std::string& path, int number) {
  ErrorCode code = number == ENOENT   ? ErrorCode::kNotFound
                   : number == EACCES ? ErrorCode::kForbidden
                                      : ErrorCode::kUnavailable;
  return fail(code, fmt::format("cannot read data '{}': {}", path, std::strerror(number)));
}

// The files that `path` stands for.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (error) return cannot_read(path, error.value());
  if (!fs::is_directory(status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;  // a link to nowhere is no file
    if (it->is_regular_file(ignored)) files.push_back(it->path().string());
  }
  if (error) return cannot_read(path, error.value());
  if (files.empty()) return fail(ErrorCode::kNotFound, fmt::format("the data folder '{}' has no files in it", path));
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::string> read_file(const std::string& path, std::uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    if (error) return cannot_read(path, error.value());
    return fail(ErrorCode::kInvalid, fmt::format("data '{}' is not a regular file", path));
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return cannot_read(path, errno);
  std::string bytes;
  std::array<char, 65536> part;
  while (size_t got = std::fread(part.data(), 1, part.size(), file.get())) {
    bytes.append(part.data(), got);
    if (bytes.size() > most) {
      return fail(ErrorCode::kExhausted,
                  fmt::format("the data is larger than {} MiB, the most that is held in memory (at '{}')",
                              kMaxTextBytes >> 20, path));
    }
  }
  if (std::ferror(file.get())) return cannot_read(path, errno);
  return bytes;
}

}  // namespace

Result<Text> read_text(const std::vector<std::string>& paths) {
  if (paths.empty()) return fail(ErrorCode::kInvalid, "no data file was named");
  Text text;
  std::set<std::string> seen;
  std::string training, held_out;
  for (const std::string& path : paths) {
    LOCKSTEP_TRY(auto files, files_of(path));
    for (const std::string& file : files) {
      std::error_code error;
      std::string real = fs::canonical(file, error).string();
      if (!error && !seen.insert(real).second) continue;
      LOCKSTEP_TRY(auto bytes, read_file(file, kMaxTextBytes - training.size() - held_out.size()));
      size_t cut = bytes.size() - bytes.size() / 10;
      training.append(bytes, 0, cut);
      held_out.append(bytes, cut);
      text.files.push_back(file);
    }
  }
  if (training.empty()) {
    return fail(ErrorCode::kInvalid, fmt::format("the data in '{}' is empty", paths.front()));
  }
  std::array<bool, 256> occurs{};
  for (const std::string* part : {&training, &held_out}) {
    for (char c : *part) occurs[static_cast<unsigned char>(c)] = true;
  }
  std::array<std::uint8_t, 256> token{};
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!occurs[byte]) continue;
    token[byte] = static_cast<std::uint8_t>(text.vocabulary.size());
    text.vocabulary.push_back(static_cast<unsigned char>(byte));
  }
  auto encode = [&](const std::string& from, std::vector<std::uint8_t>& to) {
    to.resize(from.size());
    std::transform(from.begin(), from.end(), to.begin(), [&](char c) { return token[static_cast<unsigned char>(c)]; });
    text.fingerprint = core::derive(text.fingerprint, from);
  };
  encode(training, text.training);
  encode(held_out, text.held_out);
  return text;
}

std::string to_string(const Text& text, const std::vector<std::uint8_t>& tokens) {
  std::string bytes;
  for (std::uint8_t token : tokens) bytes.push_back(static_cast<char>(text.vocabulary[token]));
  return bytes;
}

}  // namespace lockstep::trainer::data
