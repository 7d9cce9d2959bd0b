#include "operator/job/api_generation_store.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "operator/api/object.h"
#include "operator/job/predecessor.h"
#include "operator/rendezvous/limits.h"

namespace lockstep::job {
namespace {

using api::Json;
using rendezvous::Record;

constexpr const char* kField = "record";

// Up to format 2 `members` has every member. An operator that knows no format takes their ranks from their slots, so
// format 2 is written only where the two orders are the same. From format 3 on `ranks` has the members, in order of
// rank. `members` has one that is never expected, so an operator that knows no format finds the generation over and
// forms the next.
constexpr int kMembersInOrder = 2;
constexpr std::int64_t kNobody = -1;  // incarnation

Json config_map(const std::string& name_space, const std::string& job, const std::string& uid,
                const std::string& version, const Record& record) {
  const api::OwnerReference owner{.api_version = kube::kTrainingJobs.api_version(),
                                  .kind = kube::kTrainingJobs.kind,
                                  .name = job,
                                  .uid = uid,
                                  .controller = true};
  Json object{{"apiVersion", "v1"},
              {"kind", "ConfigMap"},
              {"metadata",
               {{"name", record_name(job)},
                {"namespace", name_space},
                {"labels",
                 {{api::kLabelJob, job},
                  {api::kLabelJobUid, uid},
                  {"app.kubernetes.io/name", "lockstep-job"},
                  {"app.kubernetes.io/instance", job},
                  {"app.kubernetes.io/managed-by", "lockstep-operator"}}},
                {"ownerReferences", Json::array({api::to_json(owner)})}}},
              {"data", {{kField, record_to_text(record)}}}};
  if (!version.empty()) object["metadata"]["resourceVersion"] = version;
  return object;
}

Result<std::string> version_of(const Result<Json>& written) {
  if (!written) return written.error();
  LOCKSTEP_TRY(const auto meta, api::parse_meta(*written));
  return meta.resource_version;
}

}  // namespace

std::string record_name(const std::string& job) {
  return job + "-record";
}

std::string record_to_text(const Record& record) {
  Json json{{"format", record.format}, {"term", record.term}, {"generation", record.generation}};
  if (!record.writer.empty()) json["writer"] = record.writer;
  Json members = Json::array();
  for (const auto& member : record.members) {
    members.push_back({{"slot", member.slot}, {"incarnation", member.incarnation}, {"life", member.life}});
  }
  const bool by_slot = std::is_sorted(record.members.begin(), record.members.end(),
                                      [](const auto& a, const auto& b) { return a.slot < b.slot; });
  if (by_slot) {
    json["format"] = std::min(record.format, kMembersInOrder);
    json["members"] = std::move(members);
  } else {
    json["ranks"] = std::move(members);
    json["members"] = {{{"slot", record.members.front().slot}, {"incarnation", kNobody}, {"life", 0}}};
  }
  if (record.checkpoint) {
    json["checkpoint"] = {{"name", record.checkpoint->name},
                          {"step", record.checkpoint->step},
                          {"generation", record.checkpoint->generation},
                          {"digest", record.checkpoint->digest}};
  }
  if (record.finished) json["finished"] = true;
  if (record.progress) {
    const rendezvous::Progress& progress = *record.progress;
    json["progress"] = {{"step", progress.step},
                        {"totalSteps", progress.total_steps},
                        {"epoch", progress.epoch},
                        {"loss", std::isfinite(progress.loss) ? Json(progress.loss) : Json(nullptr)}};
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

// What at() throws for a field that is missing has the same base.
std::int64_t count_at(const Json& object, const char* name, std::int64_t least = 0,
                      std::int64_t most = rendezvous::kMostCount) {
  const auto number = rendezvous::integer_within(object.at(name), least, most);
  if (!number) {
    throw std::out_of_range(std::string(name) + " must be a whole number from " + std::to_string(least) + " to " +
                            std::to_string(most));
  }
  return *number;
}

std::string word_at(const Json& object, const char* name) {
  const auto& word = object.at(name).get_ref<const std::string&>();
  if (word.size() > rendezvous::kMaxName) throw std::out_of_range(std::string(name) + " is too long");
  return word;
}

std::vector<Record::Member> members_of(const Json& list) {
  if (!list.is_array()) throw std::out_of_range("its members must be a list");
  std::vector<Record::Member> members;
  std::set<int> slots;
  for (const Json& member : list) {
    members.push_back({.slot = static_cast<int>(count_at(member, "slot", 0, rendezvous::kMostRanks)),
                       .incarnation = count_at(member, "incarnation", kNobody),
                       .life = count_at(member, "life")});
    if (!slots.insert(members.back().slot).second) throw std::out_of_range("a slot comes twice");
  }
  return members;
}

}  // namespace

Result<Record> record_from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::kCorrupt, "the record is not a JSON object");
  try {
    Record record;
    record.term = count_at(json, "term");
    record.generation = count_at(json, "generation");
    if (json.contains("writer")) record.writer = word_at(json, "writer");
    record.format =
        json.contains("format") ? static_cast<int>(count_at(json, "format", 1, std::numeric_limits<int>::max())) : 1;
    if (record.format <= rendezvous::kRecordFormat) {
      record.members = members_of(json.at(record.format > kMembersInOrder ? "ranks" : "members"));
    }
    if (record.format == kMembersInOrder) record.format = rendezvous::kRecordFormat;  // which says the same
    if (const auto checkpoint = json.find("checkpoint"); checkpoint != json.end()) {
      record.checkpoint = rendezvous::CheckpointReport{.name = word_at(*checkpoint, "name"),
                                                       .step = count_at(*checkpoint, "step"),
                                                       .generation = count_at(*checkpoint, "generation"),
                                                       .digest = word_at(*checkpoint, "digest")};
    }
    record.finished = json.value("finished", false);
    if (const auto progress = json.find("progress"); progress != json.end()) {
      const Json& loss = progress->at("loss");
      record.progress = rendezvous::Progress{.step = count_at(*progress, "step"),
                                             .total_steps = count_at(*progress, "totalSteps"),
                                             .epoch = count_at(*progress, "epoch"),
                                             .loss = loss.is_null() ? std::nan("") : loss.get<double>()};
    }
    return record;
  } catch (const std::exception& error) {  // of the library, and of the functions above
    return fail(ErrorCode::kCorrupt, std::string("the record cannot be read: ") + error.what());
  }
}

Result<rendezvous::GenerationStore::Versioned> ApiGenerationStore::load(const std::string& name_space,
                                                                        const std::string& job,
                                                                        const std::string& uid) {
  const auto name = record_name(job);
  auto object = api_.get(kube::kConfigMaps, name_space, name);
  if (!object && object.error().code == ErrorCode::kNotFound) return Versioned{};
  if (!object) return object.error().in("reading ConfigMap " + name);
  LOCKSTEP_TRY(const auto meta, api::parse_meta(*object));
  if (meta.controller_uid() != uid) {
    if (meta.label(api::kLabelJobUid).empty()) {
      return fail(ErrorCode::kAlreadyExists, "ConfigMap " + name + " exists and does not belong to this job");
    }
    LOCKSTEP_TRY(const bool left, left_by_predecessor(api_, meta, job, uid));
    if (left) return Versioned{Record{}, meta.resource_version};  // the first record of this job replaces it
    return fail(ErrorCode::kUnavailable, "ConfigMap " + name + " of an earlier job of that name is still there");
  }
  const auto data = object->find("data");
  const Json* text = nullptr;
  if (data != object->end() && data->is_object() && data->contains(kField)) text = &data->at(kField);
  if (text == nullptr || !text->is_string()) {
    return fail(ErrorCode::kCorrupt, "ConfigMap " + name + " has no data." + kField);
  }
  auto record = record_from_text(text->get<std::string>());
  if (!record) return record.error().in("ConfigMap " + name);
  return Versioned{std::move(*record), meta.resource_version};
}

Result<std::string> ApiGenerationStore::compare_and_set(const std::string& name_space, const std::string& job,
                                                        const std::string& uid, const std::string& version,
                                                        const Record& next) {
  const auto name = record_name(job);
  const Json object = config_map(name_space, job, uid, version, next);
  if (!version.empty()) return version_of(api_.replace(kube::kConfigMaps, name_space, name, object));
  auto created = version_of(api_.create(kube::kConfigMaps, name_space, object));
  if (!created && created.error().code == ErrorCode::kAlreadyExists) {
    return fail(ErrorCode::kConflict, "ConfigMap " + name + " was created by another coordinator");
  }
  return created;
}

}  // namespace lockstep::job
