#include "operator/base/log.h"

// Header-only: the agent is linked statically, and Debian has spdlog only as a shared library.
#define SPDLOG_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>

#include "operator/base/timestamp.h"

namespace lockstep::log {
namespace {

std::atomic<Format> format_of_records{Format::kText};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

constexpr const char* kNames[] = {"debug", "info", "warn", "error"};
constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                 spdlog::level::err};

// Quotes a value that would otherwise be read as several.
std::string quoted(const std::string& value) {
  if (!value.empty() && value.find_first_of(" \"=\n\r\t") == std::string::npos) return value;
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void configure(Level least, Format format) {
  format_of_records = format;
  logger().set_level(kLevels[static_cast<int>(least)]);
}

void write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  const auto spdlog_level = kLevels[static_cast<int>(level)];
  if (!logger().should_log(spdlog_level)) return;
  try {
    const std::string time = format_micro_timestamp(SystemClock::instance().wall_now());
    std::string line;
    if (format_of_records == Format::kJson) {
      nlohmann::ordered_json record{{"time", time}, {"level", kNames[static_cast<int>(level)]}, {"message", message}};
      for (const auto& [key, value] : fields) record[std::string(key)] = value;
      line = record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    } else {
      line = fmt::format("{} {:5} {}", time, kNames[static_cast<int>(level)], message);
      for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, quoted(value));
    }
    logger().log(spdlog_level, "{}", line);
  } catch (const std::exception&) {
    // A log that cannot be written (closed stream, no memory) must not end the process.
  }
}

}  // namespace lockstep::log
