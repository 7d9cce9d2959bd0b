#include "operator/api/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "operator/api/lookup.h"
#include "operator/api/object.h"
#include "operator/api/schema.h"
#include "operator/api/suggest.h"
#include "operator/api/validation_rules.h"

namespace lockstep::api {
namespace {

constexpr size_t kMaxProblems = 100;

constexpr std::array<std::string_view, 15> kMetadataFields{"name",
                                                           "namespace",
                                                           "labels",
                                                           "annotations",
                                                           "generateName",
                                                           "finalizers",
                                                           "ownerReferences",
                                                           "uid",
                                                           "resourceVersion",
                                                           "generation",
                                                           "selfLink",
                                                           "creationTimestamp",
                                                           "deletionTimestamp",
                                                           "deletionGracePeriodSeconds",
                                                           "managedFields"};

// A place in the document, kept as a chain so that its text is built only for a problem.
struct Place {
  const Place* parent = nullptr;
  std::string_view key;  // of a map
  size_t entry = 0;      // of a list, where key.data() is null

  std::string path() const {
    if (parent == nullptr) return "";
    std::string text = parent->path();
    return text + (key.data() == nullptr ? path_step(entry) : path_step(key, text.empty()));
  }
};

const char* kind_of(const Json& value) {
  if (value.is_object()) return "a map";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "a boolean";
  if (value.is_null()) return "null";
  return value.is_number_float() ? "a fraction" : "a number";
}

// The first sentence of a description.
std::string first_sentence(const Json& schema) {
  const Json& description = at(schema, "description");
  if (!description.is_string()) return "";
  std::string text = description.get<std::string>();
  const size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

class Validator {
 public:
  std::vector<Problem> run(const Json& job) {
    const Place root;
    if (!job.is_object()) {
      report(root, "a TrainingJob must be a map with apiVersion, kind, metadata and spec");
      return std::move(problems_);
    }
    check_head(job, root);
    check(job, training_job_schema(), root);
    apply_rules(with_defaults(job), training_job_schema(), root, "");
    return std::move(problems_);
  }

 private:
  void report(const Place& place, const std::string& sentence, const std::string& below = "") {
    if (problems_.size() >= kMaxProblems) return;
    std::string path = place.path();
    if (!below.empty()) path += (path.empty() ? "" : ".") + below;
    problems_.push_back({std::move(path), sentence, {}});
  }

  // The API server's checks of every object: version, kind and metadata.
  void check_head(const Json& job, const Place& root) {
    const std::string version = fmt::format("{}/{}", kGroup, kVersion);
    if (at(job, "apiVersion") != version) report(root, "must be " + version, "apiVersion");
    if (at(job, "kind") != "TrainingJob") report(root, "must be TrainingJob", "kind");
    const Json& metadata = at(job, "metadata");
    if (metadata.is_null()) return report(root, "is required; it holds the job's name", "metadata");
    if (!metadata.is_object()) return;  // the schema check reports it
    const Place place{&root, "metadata"};
    for (const auto& [key, value] : metadata.items()) {
      if (std::find(kMetadataFields.begin(), kMetadataFields.end(), key) != kMetadataFields.end()) continue;
      report_unknown(place, key, {kMetadataFields.begin(), kMetadataFields.end()});
    }
    if (at(metadata, "name").is_null() && at(metadata, "generateName").is_null()) {
      report(place, "is required; it names the job, and its Service and pods after it", "name");
    }
    for (const char* field : {"labels", "annotations"}) {
      const Place map{&place, field};
      const Json& values = at(metadata, field);
      if (values.is_null()) continue;
      if (!values.is_object()) report(map, fmt::format("must be a map, not {}", kind_of(values)));
      if (values.is_object()) check_texts(values, map);
    }
  }

  void check_texts(const Json& values, const Place& map) {
    for (const auto& [key, value] : values.items()) {
      if (!value.is_string()) report(Place{&map, key}, must_be("string", value));
    }
  }

  static std::string must_be(const std::string& type, const Json& value) {
    std::string sentence =
        fmt::format("must be {}{}, not {}", std::string("aeiou").find(type[0]) == std::string::npos ? "a " : "an ",
                    type, kind_of(value));
    if (type == "string" && (value.is_boolean() || value.is_number())) return sentence + "; put it in quotes";
    const bool digits = value.is_string() && !value.get_ref<const std::string&>().empty() &&
                        value.get_ref<const std::string&>().find_first_not_of("0123456789") == std::string::npos;
    if (type == "integer" && digits) return sentence + "; write it without quotes";
    return sentence;
  }

  void report_unknown(const Place& place, const std::string& key, const std::vector<std::string_view>& known) {
    const Place field{&place, key};
    if (const auto near = nearest(key, known)) {
      return report(field, fmt::format("unknown field; did you mean {}?", *near));
    }
    const std::string elsewhere = place_of_field(training_job_schema(), key);
    if (!elsewhere.empty()) return report(field, fmt::format("unknown field; did you mean {}?", elsewhere));
    report(field, "unknown field");
  }

  void check(const Json& value, const Json& schema, const Place& place) {
    if (value.is_null() && schema.contains("default")) return;
    if (at(schema, "x-kubernetes-int-or-string") == true) {
      if (!value.is_number_integer() && !value.is_string()) {
        report(place, fmt::format("must be a number or a string, not {}", kind_of(value)));
      }
      return check_string(value, schema, place);
    }
    const std::string type = at(schema, "type").is_string() ? schema["type"].get<std::string>() : "";
    if (type == "object") {
      if (!value.is_object()) return report(place, fmt::format("must be a map, not {}", kind_of(value)));
      check_map(value, schema, place);
    } else if (type == "array") {
      if (!value.is_array()) return report(place, fmt::format("must be a list, not {}", kind_of(value)));
      check_list(value, schema, place);
    } else if (type == "string") {
      if (!value.is_string()) return report(place, must_be(type, value));
      check_string(value, schema, place);
    } else if (type == "integer") {
      if (!value.is_number_integer()) return report(place, must_be(type, value));
      check_range(value, schema, place);
    } else if (type == "boolean" && !value.is_boolean()) {
      report(place, fmt::format("must be true or false, not {}", kind_of(value)));
    }
  }

  void check_map(const Json& value, const Json& schema, const Place& place) {
    const Json &fields = at(schema, "properties"), &more = at(schema, "additionalProperties");
    const bool is_metadata = place.parent != nullptr && place.parent->parent == nullptr && place.key == "metadata";
    const bool open = is_metadata || at(schema, "x-kubernetes-preserve-unknown-fields") == true;
    for (const Json& name : at(schema, "required")) {
      const auto& key = name.get_ref<const std::string&>();
      if (!value.contains(key)) report(place, "is required: " + first_sentence(at(fields, key)), path_step(key, true));
    }
    if (const Json& most = at(schema, "maxProperties"); most.is_number() && value.size() > most.get<size_t>()) {
      report(place, fmt::format("must have at most {} entries", most.get<size_t>()));
    }
    for (const auto& [key, item] : value.items()) {
      const Place below{&place, key};
      if (fields.contains(key)) {
        check(item, fields[key], below);
      } else if (more.is_object()) {
        check(item, more, below);
      } else if (!open) {
        std::vector<std::string_view> known;
        for (const auto& [name, field] : fields.items()) known.push_back(name);
        report_unknown(place, key, known);
      }
    }
  }

  void check_list(const Json& value, const Json& schema, const Place& place) {
    if (const Json& most = at(schema, "maxItems"); most.is_number() && value.size() > most.get<size_t>()) {
      return report(place, fmt::format("must have at most {} entries", most.get<size_t>()));
    }
    for (size_t i = 0; i < value.size(); ++i) check(value[i], at(schema, "items"), Place{&place, {}, i});
    if (at(schema, "x-kubernetes-list-type") != "map") return;
    const std::string key = at(schema, "x-kubernetes-list-map-keys")[0].get<std::string>();
    for (size_t i = 0; i < value.size(); ++i) {
      const Json& name = at(value[i], key);
      const auto same = [&](const Json& other) { return at(other, key) == name; };
      const auto end = value.begin() + static_cast<std::ptrdiff_t>(i);
      if (name.is_string() && std::find_if(value.begin(), end, same) != end) {
        report(Place{&place, {}, i}, fmt::format("the {} {} is given twice", key, name.get<std::string>()));
      }
    }
  }

  void check_string(const Json& value, const Json& schema, const Place& place) {
    if (!value.is_string()) return;
    const auto& text = value.get_ref<const std::string&>();
    if (const Json& choices = at(schema, "enum"); choices.is_array()) {
      std::vector<std::string_view> names;
      for (const Json& choice : choices) names.push_back(choice.get_ref<const std::string&>());
      if (std::find(names.begin(), names.end(), text) != names.end()) return;
      const auto near = nearest(text, names);
      return report(place, fmt::format("must be one of {}{}", fmt::join(names, ", "),
                                       near ? fmt::format("; did you mean {}?", *near) : ""));
    }
    if (const Json& most = at(schema, "maxLength"); most.is_number() && characters(text) > most.get<size_t>()) {
      report(place, fmt::format("must be at most {} characters long", most.get<size_t>()));
    }
    if (const Json& least = at(schema, "minLength"); least.is_number() && characters(text) < least.get<size_t>()) {
      report(place, "must not be empty");
    }
  }

  void check_range(const Json& value, const Json& schema, const Place& place) {
    const Json &least = at(schema, "minimum"), &most = at(schema, "maximum");
    if (least.is_number() && value < least)
      report(place, fmt::format("must be at least {}", least.get<std::int64_t>()));
    if (most.is_number() && value > most) report(place, fmt::format("must be at most {}", most.get<std::int64_t>()));
  }

  // The rules of this place of the schema and of all below it. `where`: the path in the schema.
  void apply_rules(const Json& value, const Json& schema, const Place& place, const std::string& where) {
    for (const ValidationRule& rule : validation_rules()) {
      if (where == rule.place && !rule.holds(value)) report(place, rule.message, rule.field);
    }
    if (value.is_array() && schema.contains("items")) {
      for (size_t i = 0; i < value.size(); ++i) {
        apply_rules(value[i], schema["items"], Place{&place, {}, i}, where + "[]");
      }
    }
    if (!value.is_object()) return;
    const Json &fields = at(schema, "properties"), &more = at(schema, "additionalProperties");
    for (const auto& [key, item] : value.items()) {
      const Place below{&place, key};
      if (fields.contains(key)) apply_rules(item, fields[key], below, where.empty() ? key : where + "." + key);
      if (!fields.contains(key) && more.is_object()) apply_rules(item, more, below, where + "{}");
    }
  }

  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> validate(const Json& job) {
  return Validator().run(job);
}

JobFile read_job_file(std::string_view text) {
  JobFile file;
  Position failed_at;
  auto document = parse_yaml(text, &failed_at);
  if (!document) {
    file.problems.push_back({"", document.error().message, failed_at});
    return file;
  }
  if (document->json.is_null()) {
    file.problems.push_back({"", "the file is empty", {1, 1}});
    return file;
  }
  file.json = std::move(document->json);
  file.problems = validate(file.json);
  for (Problem& problem : file.problems) problem.at = document->position_of(problem.path);
  std::stable_sort(file.problems.begin(), file.problems.end(), [](const Problem& a, const Problem& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  return file;
}

}  // namespace lockstep::api
