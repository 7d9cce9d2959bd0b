#include "operator/placement/json_walk.h"

#include <nlohmann/json.hpp>

namespace lockstep::placement {
namespace {

// The events of the parser on one side, places of the table on the other.
class Walk final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Walk(const JsonPaths& paths, JsonVisitor& visitor) : paths_(paths), visitor_(visitor) {}

  bool null() override { return true; }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return wanted() ? scalar(std::to_string(value)) : true; }
  bool number_unsigned(number_unsigned_t value) override { return wanted() ? scalar(std::to_string(value)) : true; }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text); }
  bool string(string_t& text) override { return scalar(text); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return begin(false); }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override { return begin(true); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (skipped_ > 0) return true;
    key_.assign(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  struct Frame {
    int place;
    bool array;
  };
  // The place of the value that comes next, or -1.
  int place() const {
    if (skipped_ > 0) return -1;
    if (frames_.empty()) return 0;
    return paths_.next(frames_.back().place, frames_.back().array ? std::string_view("[]") : std::string_view(key_));
  }
  bool wanted() const {
    const int at = place();
    return at >= 0 && paths_.id(at) >= 0;
  }
  bool scalar(std::string_view text) {
    const int at = place();
    if (at >= 0 && paths_.id(at) >= 0) {
      visitor_.value(paths_.id(at), !frames_.empty() && frames_.back().array ? "[]" : std::string_view(key_), text);
    }
    return true;
  }
  bool begin(bool array) {
    const int at = place();
    if (at < 0) {
      ++skipped_;
      return true;
    }
    if (paths_.id(at) >= 0) visitor_.begin(paths_.id(at));
    frames_.push_back({at, array});
    return true;
  }
  bool end() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      frames_.pop_back();
    }
    return true;
  }

  const JsonPaths& paths_;
  JsonVisitor& visitor_;
  std::vector<Frame> frames_;  // never deeper than the table
  std::size_t skipped_ = 0;    // objects and arrays around us that no path leads into
  std::string key_;
};

}  // namespace

bool walk_json(std::string_view text, const JsonPaths& paths, JsonVisitor& visitor) {
  Walk walk(paths, visitor);
  return nlohmann::json::sax_parse(keep_paths(text, paths), &walk);
}

}  // namespace lockstep::placement
