#include "trainer/checkpoint/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/base/number.h"
#include "trainer/checkpoint/files.h"

namespace lockstep::trainer::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kKind = "lockstep-checkpoint";
constexpr int kDeepest = 64;  // deepest nesting that is parsed; deeper text could exhaust the stack

// Parses; the value is discarded if the text is no JSON or nests too deeply.
json parse(std::string_view text) {
  bool too_deep = false;
  json value = json::parse(
      text,
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  return too_deep ? json(json::value_t::discarded) : value;
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<std::int64_t> number(std::string_view text) {
  const auto value = parse_number<std::int64_t>(text, 0);
  if (!value || text[0] == '-' || (text.size() > 1 && text[0] == '0')) return std::nullopt;  // one name per checkpoint
  return *value;
}

}  // namespace

std::string folder_name(std::int64_t step, std::int64_t generation) {
  return fmt::format("step-{}.g{}", step, generation);
}

std::optional<StepAndGeneration> parse_folder_name(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const size_t dot = name.find(".g");
  if (dot == std::string_view::npos) return std::nullopt;
  const auto step = number(name.substr(0, dot));
  const auto generation = number(name.substr(dot + 2));
  if (!step || !generation) return std::nullopt;
  return StepAndGeneration{*step, *generation};
}

Result<std::string> encode(const Manifest& manifest) {
  const json metadata = parse(manifest.metadata);
  if (!metadata.is_object()) return fail(ErrorCode::kInvalid, "the metadata of a checkpoint must be a JSON object");
  json files = json::array();
  for (const FileDigest& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  json value = {{"kind", kKind},
                {"formatVersion", manifest.format_version},
                {"step", manifest.step},
                {"generation", manifest.generation},
                {"lineage", manifest.lineage},
                {"jobUid", manifest.job_uid},
                {"model", manifest.identity.model},
                {"modelHash", manifest.identity.model_hash},
                {"seed", manifest.identity.seed},
                {"numericsId", manifest.identity.numerics_id},
                {"cursor", {{"epoch", manifest.cursor.epoch}, {"index", manifest.cursor.index}}},
                {"digest", manifest.digest},
                {"createdAt", manifest.created_at},
                {"files", files},
                {"metadata", metadata}};
  // Once through text, so that the checksum is of what a reader will see.
  value = parse(dump(value));
  value["checksum"] = sha256_hex(dump(value));
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Manifest> decode_manifest(std::string_view text) {
  json value = parse(text);
  if (!value.is_object() || value.value("kind", json()) != kKind) {
    return fail(ErrorCode::kCorrupt, "it is not a checkpoint manifest");
  }
  if (const auto version = value.find("formatVersion");
      version != value.end() && version->is_number_integer() && version->get<std::int64_t>() > kFormatVersion) {
    return fail(ErrorCode::kInvalid, fmt::format("it has format version {}, this program reads up to {}",
                                                 version->get<std::int64_t>(), kFormatVersion));
  }
  const json checksum = value.value("checksum", json());
  value.erase("checksum");
  if (!checksum.is_string() || checksum.get<std::string>() != sha256_hex(dump(value))) {
    return fail(ErrorCode::kCorrupt, "its checksum does not fit its contents");
  }
  try {
    Manifest manifest;
    value.at("formatVersion").get_to(manifest.format_version);
    value.at("step").get_to(manifest.step);
    value.at("generation").get_to(manifest.generation);
    value.at("lineage").get_to(manifest.lineage);
    value.at("jobUid").get_to(manifest.job_uid);
    value.at("model").get_to(manifest.identity.model);
    value.at("modelHash").get_to(manifest.identity.model_hash);
    value.at("seed").get_to(manifest.identity.seed);
    value.at("numericsId").get_to(manifest.identity.numerics_id);
    value.at("cursor").at("epoch").get_to(manifest.cursor.epoch);
    value.at("cursor").at("index").get_to(manifest.cursor.index);
    value.at("digest").get_to(manifest.digest);
    value.at("createdAt").get_to(manifest.created_at);
    for (const json& file : value.at("files")) {
      manifest.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                                file.at("sha256").get<std::string>()});
    }
    manifest.metadata = dump(value.at("metadata"));
    return manifest;
  } catch (const json::exception&) {
    return fail(ErrorCode::kCorrupt, "a field of it is missing or of another type");
  }
}

}  // namespace lockstep::trainer::checkpoint
