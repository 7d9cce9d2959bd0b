// What `lockstep topology` shows: the tree of domains with what is free and which jobs are where. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "operator/cli/cluster_reading.h"
#include "operator/placement/census.h"

namespace lockstep::cli {

struct DrawOptions {
  std::optional<int> depth;  // levels below the cluster, nodes included; none: as deep as some 60 lines show
  bool all = false;          // every domain and node, instead of the first 16 of a domain
};

// The tree as a table with a heading: a line per domain, and a last one that says what is folded.
std::string draw_topology(const ClusterReading& reading, const placement::Census& census, const DrawOptions& options);

// The profile, the holes and the problems of labels, a line each.
std::string topology_summary(const ClusterReading& reading, const placement::Census& census);

// The levels with their labels, and where they come from.
std::string profile_in_words(const ClusterReading& reading);

// The whole tree and all of the above. Amounts are numbers: CPUs, bytes, devices.
nlohmann::json topology_json(const ClusterReading& reading, const placement::Census& census);

// "3 GPUs" and the like: an amount of the resource for a sentence.
std::string amount_of(std::string_view resource, std::int64_t units);

// "rack b1/r2", "node n1" or "cluster": what is at this path of this level.
std::string place_name(const placement::Profile& profile, int level, const std::vector<std::string>& path);

}  // namespace lockstep::cli
