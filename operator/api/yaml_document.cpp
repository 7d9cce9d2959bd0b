#include "operator/api/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <sstream>

#include "operator/api/yaml_scalar.h"

namespace lockstep::api {
namespace {

using Json = nlohmann::json;
using Place = YamlDocument::Place;

// Thrown through yaml-cpp, which cannot be stopped in another way, and caught in this file.
struct Refusal {
  Position at;
  std::string sentence;
};

Position position_of_mark(const YAML::Mark& mark) {
  return {mark.line + 1, mark.column + 1};
}

struct Value {
  Json json;
  Place place;
  size_t nodes = 1;  // in it, itself included
};

// Builds the JSON from yaml-cpp's events.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(const YamlLimits& limits) : limits_(limits) {}

  Value& result() { return result_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add_scalar(mark, anchor, "", true); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    static constexpr const char* kCore = "tag:yaml.org,2002:";
    if (tag == "?") return add_scalar(mark, anchor, text, true);
    if (tag == "!" || tag == std::string(kCore) + "str") return add_scalar(mark, anchor, text, false);
    for (const char* plain : {"null", "bool", "int", "float"}) {
      if (tag == std::string(kCore) + plain) return add_scalar(mark, anchor, text, true);
    }
    refuse_tag(mark, tag);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) throw Refusal{position_of_mark(mark), "this alias stands inside what it refers to"};
    count(mark, it->second.second);
    Value value{it->second.first, {}, it->second.second};
    value.place.at = position_of_mark(mark);
    add(mark, 0, std::move(value), "");
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:seq") refuse_tag(mark, tag);
    open(mark, anchor, Json::array());
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (tag != "?" && tag != "!" && tag != "tag:yaml.org,2002:map") refuse_tag(mark, tag);
    open(mark, anchor, Json::object());
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Value value;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    std::optional<std::string> key;  // read; its value is still to come
    Position key_at;
    bool key_merges = false;  // it is <<
    Json merged = Json::object();
  };

  [[noreturn]] static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    throw Refusal{position_of_mark(mark), fmt::format("the tag {} is not supported here", tag.substr(0, 64))};
  }

  void count(const YAML::Mark& mark, size_t nodes) {
    nodes_ += nodes;
    if (nodes_ <= limits_.nodes) return;
    throw Refusal{position_of_mark(mark), fmt::format("the document has more than {} values", limits_.nodes)};
  }

  void add_scalar(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& text, bool plain) {
    count(mark, 1);
    if (find_invalid_utf8(text) != std::string_view::npos)
      throw Refusal{position_of_mark(mark), "this is not UTF-8 text"};
    Value value{plain ? resolve_plain_scalar(text) : Json(text), {}, 1};
    value.place.at = position_of_mark(mark);
    add(mark, anchor, std::move(value), plain ? text : "");
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Json empty) {
    count(mark, 1);
    if (static_cast<int>(frames_.size()) >= limits_.depth) {
      throw Refusal{position_of_mark(mark), fmt::format("more than {} levels are nested", limits_.depth)};
    }
    if (!frames_.empty() && frames_.back().value.json.is_object() && !frames_.back().key) {
      throw Refusal{position_of_mark(mark), "a key must be a plain text"};
    }
    Frame frame;
    frame.value.json = std::move(empty);
    frame.value.place.at = position_of_mark(mark);
    frame.anchor = anchor;
    frame.mark = mark;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    for (const auto& [key, value] : frame.merged.items()) {
      if (!frame.value.json.contains(key)) frame.value.json[key] = value;
    }
    add(frame.mark, frame.anchor, std::move(frame.value), "");
  }

  // Stores a finished value: it is a key, the value of one, an entry, or the document.
  // `plain`: the text of an unquoted scalar.
  void add(const YAML::Mark& mark, YAML::anchor_t anchor, Value value, const std::string& plain) {
    if (anchor != 0) {
      count(mark, value.nodes);  // the copy that aliases are made from
      anchors_.insert_or_assign(anchor, std::pair(value.json, value.nodes));
    }
    if (frames_.empty()) {
      result_ = std::move(value);
      return;
    }
    Frame& frame = frames_.back();
    frame.value.nodes += value.nodes;
    if (frame.value.json.is_array()) {
      frame.value.json.push_back(std::move(value.json));
      frame.value.place.entries.push_back(std::move(value.place));
    } else if (!frame.key) {
      take_key(frame, mark, value.json, plain);
    } else if (frame.key_merges) {
      merge(frame, value.json);
      frame.key.reset();
    } else {
      value.place.at = frame.key_at;
      frame.value.json[*frame.key] = std::move(value.json);
      frame.value.place.fields.emplace_back(*frame.key, std::move(value.place));
      frame.key.reset();
    }
  }

  void take_key(Frame& frame, const YAML::Mark& mark, const Json& json, const std::string& plain) {
    if (json.is_structured() || json.is_null()) throw Refusal{position_of_mark(mark), "a key must be a plain text"};
    std::string key = json.is_string() ? json.get<std::string>() : json.dump();
    if (key.size() > limits_.key_bytes) {
      throw Refusal{position_of_mark(mark), fmt::format("a key is longer than {} bytes", limits_.key_bytes)};
    }
    frame.key_merges = plain == "<<";
    if (!frame.key_merges && frame.value.json.contains(key)) {
      throw Refusal{position_of_mark(mark), fmt::format("the key {} is given twice", key)};
    }
    frame.key = std::move(key);
    frame.key_at = position_of_mark(mark);
  }

  // <<: the keys of a map, or of a list of maps, where the map has none of its own; earlier ones win.
  void merge(Frame& frame, const Json& value) const {
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& map : list) {
      if (!map.is_object()) throw Refusal{frame.key_at, "<< needs a map, or a list of maps"};
      for (const auto& [key, item] : map.items()) {
        if (!frame.merged.contains(key)) frame.merged[key] = item;
      }
    }
  }

  const YamlLimits& limits_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, std::pair<Json, size_t>> anchors_;  // values, and how many are in them
  size_t nodes_ = 0;
  Value result_;
};

bool is_indented_by_tab(std::string_view text, int line) {
  size_t at = 0;
  for (; line > 1 && at != std::string_view::npos; --line) at = text.find('\n', at) + 1;
  const size_t first = text.find_first_not_of(' ', at);
  return first != std::string_view::npos && text[first] == '\t';
}

Error refuse(const Position& at, const std::string& sentence, Position* failed_at) {
  if (failed_at != nullptr) *failed_at = at;
  return fail(ErrorCode::kInvalid, sentence);
}

}  // namespace

Result<YamlDocument> parse_yaml(std::string_view text, Position* failed_at, const YamlLimits& limits) {
  if (failed_at != nullptr) *failed_at = {};
  if (text.size() > limits.bytes) {
    return refuse({}, fmt::format("the file has {} bytes, more than {}", text.size(), limits.bytes), failed_at);
  }
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    return refuse({static_cast<int>(line), 1}, "this line is not UTF-8 text", failed_at);
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    Builder builder(limits);
    YamlDocument document;
    if (!parser.HandleNextDocument(builder)) return document;
    document.json = std::move(builder.result().json);
    document.root = std::move(builder.result().place);
    Builder second(limits);
    if (parser.HandleNextDocument(second) && !second.result().json.is_null()) {
      return refuse(second.result().place.at, "a second document begins here; one file holds one", failed_at);
    }
    return document;
  } catch (const Refusal& refusal) {
    return refuse(refusal.at, refusal.sentence, failed_at);
  } catch (const YAML::Exception& error) {
    const Position at = position_of_mark(error.mark);
    if (is_indented_by_tab(text, at.line)) {
      return refuse(at, "this line begins with a tab; YAML needs blanks there", failed_at);
    }
    return refuse(at, "this is not YAML: " + error.msg, failed_at);
  } catch (const std::exception& error) {
    return refuse({}, fmt::format("this is not YAML: {}", error.what()), failed_at);
  }
}

std::string path_step(std::string_view key, bool at_start) {
  bool simple = !key.empty();
  for (const char c : key)
    simple = simple && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '$');
  if (!simple) return fmt::format("[{}]", key);
  return at_start ? std::string(key) : fmt::format(".{}", key);
}

std::string path_step(size_t entry) {
  return fmt::format("[{}]", entry);
}

Position YamlDocument::position_of(std::string_view path) const {
  const Place* place = &root;
  bool at_start = true;
  // The end, a field or an entry follows a matching step; any other character makes it a different name.
  const auto follows = [&](const std::string& step) {
    if (path.substr(0, step.size()) != step) return false;
    return path.size() == step.size() || path[step.size()] == '.' || path[step.size()] == '[';
  };
  for (bool moved = true; moved && !path.empty();) {
    moved = false;
    const Place* next = nullptr;
    std::string step;
    for (const auto& [key, field] : place->fields) {
      if (step = path_step(key, at_start); follows(step)) {
        next = &field;
        break;
      }
    }
    for (size_t i = 0; next == nullptr && i < place->entries.size(); ++i) {
      if (step = path_step(i); follows(step)) next = &place->entries[i];
    }
    if (next == nullptr) break;
    place = next;
    path.remove_prefix(step.size());
    at_start = false;
    moved = true;
  }
  return place->at;
}

}  // namespace lockstep::api
