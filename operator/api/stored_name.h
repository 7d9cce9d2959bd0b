// A value of an enum as a status stores it: its name. Another version of the operator may have written a name that this
// one does not know. Such a name is kept, and written back unchanged.
#pragma once

#include <string>
#include <utility>

namespace lockstep::api {

// `Enum` has a value kNone, whose name is "", and name_of(). A value with an unknown name converts to kNone, and equals
// no value of the enum.
template <typename Enum>
class StoredName {
 public:
  StoredName(Enum value = Enum::kNone) : value_(value) {}
  // A name that no value has.
  static StoredName unknown(std::string name) {
    StoredName stored;
    stored.unknown_ = std::move(name);
    return stored;
  }

  operator Enum() const { return value_; }
  std::string text() const { return unknown_.empty() ? std::string(name_of(value_)) : unknown_; }

  bool operator==(const StoredName&) const = default;
  bool operator==(Enum value) const { return unknown_.empty() && value_ == value; }

 private:
  Enum value_;
  std::string unknown_;
};

}  // namespace lockstep::api
