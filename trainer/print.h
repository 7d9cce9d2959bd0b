// Lines for people. A closed pipe or a full disk behind standard output must not end training, so errors are ignored.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace lockstep::trainer {

template <typename... Arguments>
void print(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), to));
  std::fflush(to);
}

}  // namespace lockstep::trainer
