#include "trainer/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>

#include "trainer/core/random.h"
#include "trainer/data/data_file.h"

namespace lockstep::trainer::data {

namespace {

namespace fs = std::filesystem;

// The files of `path`: itself, or the files of the folder.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (error) return cannot_read_data(path, error.value());
  if (!fs::is_directory(status)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  fs::directory_iterator it(path, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code ignored;  // a link to nowhere is no file
    if (it->is_regular_file(ignored)) files.push_back(it->path().string());
  }
  if (error) return cannot_read_data(path, error.value());
  if (files.empty()) return fail(ErrorCode::kNotFound, fmt::format("the data folder '{}' has no files in it", path));
  std::sort(files.begin(), files.end());
  return files;
}

Result<std::string> read_file(const std::string& path, std::uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    if (error) return cannot_read_data(path, error.value());
    return fail(ErrorCode::kInvalid, fmt::format("data '{}' is not a regular file", path));
  }
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return cannot_read_data(path, errno);
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
  if (std::ferror(file.get())) return cannot_read_data(path, errno);
  return bytes;
}

// Of ASCII, whatever the locale.
bool is_capital(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_small(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_letter(char c) {
  return is_capital(c) || is_small(c);
}

// Whether a sentence begins at `i`, on the line of the previous one, which has to end with a word of small letters: "2.
// The" and "U.S. Code" begin none.
bool begins_a_sentence(const std::string& bytes, size_t i) {
  size_t end = i;
  while (end > 0 && bytes[end - 1] == ' ') --end;
  return is_capital(bytes[i]) && end < i && end >= 3 && bytes[end - 1] == '.' && is_small(bytes[end - 2]) &&
         is_small(bytes[end - 3]);
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
      text.files.push_back({.path = file, .training = cut, .held_out = bytes.size() - cut});
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

Result<std::vector<std::uint8_t>> to_tokens(const Text& text, const std::string& bytes) {
  std::vector<std::uint8_t> tokens;
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    auto at = std::lower_bound(text.vocabulary.begin(), text.vocabulary.end(), byte);
    if (at == text.vocabulary.end() || *at != byte) {
      std::string name = byte > ' ' && byte < 127 ? fmt::format("'{}'", c) : fmt::format("of code {}", byte);
      return fail(ErrorCode::kInvalid, fmt::format("the character {} does not occur in the data", name));
    }
    tokens.push_back(static_cast<std::uint8_t>(at - text.vocabulary.begin()));
  }
  return tokens;
}

Opening start_of_a_sentence(const Text& text, size_t most, std::uint64_t seed) {
  const std::string bytes = to_string(text, text.held_out);
  struct Word {
    size_t begin, end;
  };
  std::vector<Word> sentences, lines;
  for (size_t i = 1; i < bytes.size(); ++i) {
    const bool line = bytes[i - 1] == '\n' && is_letter(bytes[i]), sentence = begins_a_sentence(bytes, i);
    if (!line && !sentence) continue;
    size_t end = i;
    while (end < bytes.size() && is_letter(bytes[end])) ++end;
    if (end < most || end == bytes.size() || bytes[end] != ' ') continue;
    const auto before = std::string_view(bytes).substr(end - most, most);
    const bool prose = before.find("   ") == before.npos;  // titles and tables are set with spaces
    if (line) lines.push_back({i, end});
    if (sentence && prose) sentences.push_back({i, end});
  }
  const std::vector<Word>& words = sentences.empty() ? lines : sentences;
  Word word{0, std::min(most, bytes.size())};
  if (!words.empty()) word = words[core::derive(seed, "prompt") % words.size()];
  const auto at = [&](size_t i) { return text.held_out.begin() + static_cast<std::ptrdiff_t>(i); };
  return {{at(word.end - std::min(most, word.end)), at(word.end)}, words.empty() ? 0 : word.end - word.begin};
}

}  // namespace lockstep::trainer::data
