#include "operator/rendezvous/activity_codec.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "operator/rendezvous/limits.h"

namespace lockstep::rendezvous {
namespace {

using Json = nlohmann::json;

constexpr std::array kDoing = {"starting",   "loading", "forward",    "backward", "waiting",
                               "committing", "saving",  "regrouping", "other"};
constexpr std::array kStages = {"idle", "reduce-scatter", "all-gather", "exchange", "broadcast"};
constexpr std::string_view kStates = "RSDTtZXIP?";  // of proc(5), and none

constexpr std::size_t kNumbers = 10;      // of an activity of an earlier version, which lacks may_rest_ms
constexpr std::size_t kMostNumbers = 32;  // of one of a later version

// Reads one value after the other; remembers whether all were as they must be.
class Values {
 public:
  Values(const Json& array, std::size_t from) : array_(array), at_(from) {}
  bool good() const { return good_; }

  std::int64_t integer(std::int64_t least, std::int64_t most) {
    const auto number = integer_within(array_[at_++], least, most);
    good_ = good_ && number;
    return number.value_or(0);
  }
  int rank() { return static_cast<int>(integer(-1, kMostRanks)); }
  template <typename Enum, std::size_t N>
  Enum name(const std::array<const char*, N>& names) {
    const Json& value = array_[at_++];
    for (std::size_t i = 0; value.is_string() && i < N; ++i) {
      if (value.get_ref<const std::string&>() == names[i]) return static_cast<Enum>(i);
    }
    good_ = false;
    return {};
  }

 private:
  const Json& array_;
  std::size_t at_;
  bool good_ = true;
};

void append(Json& array, const Activity& activity) {
  for (Json value :
       {Json(activity.generation), Json(name_of(activity.doing)), Json(activity.step), Json(activity.beats),
        Json(activity.sequence), Json(name_of(activity.stage)), Json(activity.sent), Json(activity.received),
        Json(activity.waits_for_bytes_of), Json(activity.waits_for_room_at), Json(activity.may_rest_ms)}) {
    array.push_back(std::move(value));
  }
}

Error bad() {
  return fail(ErrorCode::kInvalid, "an activity must be a list of its numbers and names");
}

Result<Activity> read(const Json& array, std::size_t from) {
  if (array.size() < from + kNumbers || array.size() > from + kMostNumbers) return bad();
  Values values(array, from);
  Activity activity;
  activity.generation = values.integer(0, kMostCount);
  activity.doing = values.name<Activity::Doing>(kDoing);
  activity.step = values.integer(0, kMostCount);
  activity.beats = values.integer(0, kMostCount);
  activity.sequence = values.integer(0, kMostCount);
  activity.stage = values.name<Activity::Stage>(kStages);
  activity.sent = values.integer(0, kMostCount);
  activity.received = values.integer(0, kMostCount);
  activity.waits_for_bytes_of = values.rank();
  activity.waits_for_room_at = values.rank();
  if (array.size() > from + kNumbers) activity.may_rest_ms = values.integer(-1, kMostRestMs);
  if (!values.good()) return bad();
  return activity;
}

}  // namespace

const char* name_of(Activity::Doing doing) {
  return kDoing[static_cast<std::size_t>(doing)];
}
const char* name_of(Activity::Stage stage) {
  return kStages[static_cast<std::size_t>(stage)];
}

Json write_activity(const Activity& activity) {
  Json array = Json::array();
  append(array, activity);
  return array;
}

Json write_ranks(const std::vector<RankActivity>& ranks) {
  Json list = Json::array();
  for (const RankActivity& rank : ranks) {
    Json entry = Json::array({std::string(1, rank.state)});
    if (rank.said) {
      entry.push_back(rank.age_ms);
      append(entry, *rank.said);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Result<Activity> read_activity(const Json& json) {
  if (!json.is_array()) return bad();
  return read(json, 0);
}

Result<std::vector<RankActivity>> read_ranks(const Json& json, std::size_t most) {
  if (!json.is_array() || json.size() > most) {
    return fail(ErrorCode::kInvalid, "the activities of a member must be a list, of one for each of its processes");
  }
  std::vector<RankActivity> ranks;
  for (const Json& entry : json) {
    if (!entry.is_array() || entry.empty() || !entry[0].is_string()) return bad();
    const auto& state = entry[0].get_ref<const std::string&>();
    if (state.size() != 1 || kStates.find(state[0]) == std::string_view::npos) return bad();
    RankActivity rank;
    rank.state = state[0];
    if (entry.size() > 1) {
      Values values(entry, 1);
      rank.age_ms = values.integer(0, kMostCount);
      LOCKSTEP_TRY(rank.said, read(entry, 2));
      if (!values.good()) return bad();
    }
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

}  // namespace lockstep::rendezvous
