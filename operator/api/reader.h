// Reads fields of a JSON object into structs without ever throwing. A missing or null field keeps its default. The
// first field of a wrong type is kept as an Error that names it. Used by the parse functions of this room.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/object.h"
#include "operator/base/timestamp.h"

namespace lockstep::api {

class Reader {
 public:
  // `json` and `error` must outlive the reader and its children; `path` stands in front of names in sentences.
  // Anything but an object (or null) is an error at once.
  Reader(const Json& json, std::string path, std::optional<Error>& error);

  // Each reads the field `key` if it exists; on a wrong type `out` is unchanged.
  void read(const char* key, std::string& out) const;
  void read(const char* key, bool& out) const;
  void read(const char* key, std::int32_t& out) const;
  void read(const char* key, std::int64_t& out) const;
  void read(const char* key, std::optional<std::int32_t>& out) const;
  void read(const char* key, std::optional<std::int64_t>& out) const;
  void read(const char* key, std::optional<WallTime>& out) const;
  void read(const char* key, std::vector<std::string>& out) const;
  void read(const char* key, std::vector<std::int32_t>& out) const;
  void read(const char* key, Labels& out) const;
  // A string, or a whole number as its text.
  void read_quantity(const char* key, std::string& out) const;
  void read_object(const char* key, Json& out) const;
  // An array whose elements are all objects.
  void read_objects(const char* key, Json& out) const;

  // One of the named values.
  template <typename Enum>
  void read_enum(const char* key, Enum& out, std::initializer_list<std::pair<const char*, Enum>> values) const;

  // The object at `key`; an empty one if it is missing.
  Reader child(const char* key) const;
  // The objects of the array at `key`.
  std::vector<Reader> children(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  const std::string& path() const { return path_; }

 private:
  const Json* find(const char* key) const;
  std::string name_of(const char* key) const { return path_.empty() ? key : path_ + "." + key; }
  void refuse(const std::string& name, const std::string& must) const;
  template <typename Integer>
  void read_integer(const Json& value, const std::string& name, Integer& out) const;

  const Json* json_;
  std::string path_;
  std::optional<Error>* error_;
};

template <typename Enum>
void Reader::read_enum(const char* key, Enum& out, std::initializer_list<std::pair<const char*, Enum>> values) const {
  std::string text;
  if (!has(key)) return;
  read(key, text);
  std::string names;
  for (const auto& [name, value] : values) {
    if (text == name) {
      out = value;
      return;
    }
    names += names.empty() ? name : std::string(", ") + name;
  }
  refuse(name_of(key), "be one of " + names);
}

// The fields of one metav1.Condition.
void read_condition(const Reader& item, Condition& condition);

}  // namespace lockstep::api
