// One log for a process: a line per record with key=value context, as text for people or as JSON for collectors.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::log {

enum class Level { kDebug, kInfo, kWarn, kError };
enum class Format { kText, kJson };

// Context of a record: {"job", "default/a"}. Values are copied.
using Field = std::pair<std::string_view, std::string>;

// Where records go (standard error) and which are dropped. Call it once, before threads start; without it: info, text.
void configure(Level least, Format format);

// Any thread. A record is written whole or not at all; nothing is thrown.
void write(Level level, std::string_view message, std::initializer_list<Field> fields = {});

inline void debug(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kDebug, message, fields);
}
inline void info(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, message, fields);
}
inline void warn(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, message, fields);
}
inline void error(std::string_view message, std::initializer_list<Field> fields = {}) {
  write(Level::kError, message, fields);
}

}  // namespace lockstep::log
