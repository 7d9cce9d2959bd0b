#include "operator/rendezvous/rank_order.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "tests/cpu_seconds.h"
#include "tests/sanitizer.h"

namespace lockstep::rendezvous {
namespace {

using Path = std::vector<std::string_view>;

std::vector<int> slots_of(const std::vector<Place>& places) {
  std::vector<int> slots;
  for (const Place& place : places) slots.push_back(place.slot);
  return slots;
}

struct OrderCase {
  const char* what;
  std::vector<Place> before;
  std::vector<LocatedMember> members;
  std::vector<int> slots;
};

// Half of 4,096 members are in one rack of survivors and new nodes, half are new racks of a node each.
TEST(RankOrder, ends_in_time_where_thousands_of_racks_are_new) {
  std::vector<Place> before;
  std::vector<LocatedMember> members;
  std::vector<std::string> names;
  names.reserve(8192);
  const auto name = [&](const char* kind, int i) -> std::string_view {
    return names.emplace_back(fmt::format("{}{:04}", kind, i));
  };
  for (int i = 0; i < 4096; ++i) {
    const bool survives = i % 3 == 0;
    if (survives) before.push_back({i, 1});
    const std::string_view rack = i % 3 == 2 ? name("fresh", i) : std::string_view("mixed");
    members.push_back({{i, survives ? 1 : 2}, {rack, name("node", i)}});
  }
  std::shuffle(before.begin(), before.end(), std::mt19937_64(7));
  const double begun = cpu_seconds();
  EXPECT_EQ(rank_order(before, members).size(), members.size());
  EXPECT_LT(cpu_seconds() - begun, 2 * sanitizer::kPart);
}

TEST(RankOrder, table) {
  const OrderCase cases[] = {
      {"nobody", {}, {}, {}},
      {"no path: by slot", {}, {{{2, 1}, {}}, {{0, 1}, {}}, {{1, 1}, {}}}, {0, 1, 2}},
      {"no path: a newcomer of a lower slot comes first",
       {{1, 1}, {2, 1}},
       {{{0, 1}, {}}, {{1, 1}, {}}, {{2, 1}, {}}},
       {0, 1, 2}},
      {"no path: survivors keep the order among themselves",
       {{2, 1}, {0, 1}, {1, 1}},
       {{{0, 1}, {}}, {{1, 2}, {}}, {{2, 1}, {}}},
       {2, 1, 0}},
      {"two racks whose slots alternate",
       {},
       {{{0, 1}, {"a", "n0"}}, {{1, 1}, {"b", "n1"}}, {{2, 1}, {"a", "n2"}}, {{3, 1}, {"b", "n3"}}},
       {0, 2, 1, 3}},
      {"racks by name, whatever slots they have", {}, {{{0, 1}, {"b", "n0"}}, {{1, 1}, {"a", "n1"}}}, {1, 0}},
      {"the pods of a node are neighbours",
       {},
       {{{0, 1}, {"a", "n0"}}, {{1, 1}, {"a", "n1"}}, {{2, 1}, {"a", "n0"}}},
       {0, 2, 1}},
      {"a successor on another node of the rack takes the rank",
       {{0, 1}, {2, 1}, {4, 1}, {1, 1}, {3, 1}},
       {{{0, 1}, {"a", "n0"}},
        {{2, 2}, {"a", "n9"}},
        {{4, 1}, {"a", "n4"}},
        {{1, 1}, {"b", "n1"}},
        {{3, 1}, {"b", "n3"}}},
       {0, 2, 4, 1, 3}},
      {"a successor is the first of its rack",
       {{0, 1}, {2, 1}, {1, 1}, {3, 1}},
       {{{0, 2}, {"a", "n9"}}, {{2, 1}, {"a", "n2"}}, {{1, 1}, {"b", "n1"}}, {{3, 1}, {"b", "n3"}}},
       {0, 2, 1, 3}},
      {"the successor of a rack's only member takes its rank",
       {{0, 1}, {1, 1}, {2, 1}},
       {{{0, 2}, {"a", "n9"}}, {{1, 1}, {"b", "n1"}}, {{2, 1}, {"c", "n2"}}},
       {0, 1, 2}},
      {"a successor in another rack moves there, and racks keep their order",
       {{0, 1}, {2, 1}, {1, 1}, {3, 1}},
       {{{0, 1}, {"b", "n0"}}, {{2, 2}, {"a", "n9"}}, {{1, 1}, {"a", "n1"}}, {{3, 1}, {"a", "n3"}}},
       {0, 2, 1, 3}},
      {"racks keep their order against their names",
       {{1, 1}, {3, 1}, {0, 1}},
       {{{0, 1}, {"a", "n0"}}, {{1, 1}, {"b", "n1"}}, {{3, 2}, {"b", "n8"}}},
       {1, 3, 0}},
      {"a new rack that fits nowhere follows",
       {{0, 1}, {1, 1}},
       {{{0, 1}, {"b", "n0"}}, {{1, 1}, {"c", "n1"}}, {{2, 1}, {"a", "n2"}}},
       {0, 1, 2}},
      {"members without a path are alone among those that have one",
       {},
       {{{0, 1}, {}}, {{1, 1}, {"a", "n1"}}, {{2, 1}, {}}, {{3, 1}, {"a", "n3"}}},
       {1, 3, 0, 2}},
      {"a node that is named like a rack is none",
       {},
       {{{0, 1}, {"a", "b"}}, {{1, 1}, {"b", "a"}}, {{2, 1}, {"a", "a"}}},
       {0, 2, 1}},
      {"racks of one name in two blocks are two",
       {},
       {{{0, 1}, {"x", "r", "n0"}}, {{1, 1}, {"y", "r", "n1"}}, {{2, 1}, {"x", "r", "n2"}}},
       {0, 2, 1}},
  };
  for (const OrderCase& each : cases)
    EXPECT_EQ(slots_of(rank_order(each.before, each.members)), each.slots) << each.what;
}

// Gangs at random in a random tree, from generation to generation.
class RankOrderProperty : public testing::Test {
 protected:
  unsigned seed = std::getenv("LOCKSTEP_SEED") != nullptr
                      ? static_cast<unsigned>(std::strtoul(std::getenv("LOCKSTEP_SEED"), nullptr, 10))
                      : std::random_device{}();
  std::mt19937 random{seed};

  struct Pod {
    Place place;
    std::vector<std::string> path;
  };
  struct World {
    std::vector<std::vector<std::string>> nodes;  // paths
    std::vector<Pod> gang;
    std::vector<Place> before;
  };

  void SetUp() override { std::printf("LOCKSTEP_SEED=%u\n", seed); }
  int any(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }
  const std::vector<std::string>& any_node(const World& world) {
    return world.nodes[static_cast<std::size_t>(any(0, static_cast<int>(world.nodes.size()) - 1))];
  }

  World start(int most_members) {
    World world;
    const int depth = any(1, 3);
    const int width = any(1, 3);
    for (int node = 0; node < any(1, 12); ++node) {
      std::vector<std::string> path;
      for (int level = 0; level < depth; ++level) path.push_back(fmt::format("d{}", any(0, width)));
      path.push_back(fmt::format("n{}", node));
      world.nodes.push_back(std::move(path));
    }
    const int members = any(1, most_members);
    for (int slot = 0; slot < members; ++slot) world.gang.push_back({{slot, 1}, any_node(world)});
    return world;
  }
  // Some pods are replaced, some are gone, some come.
  void disturb(World& world, int most_members) {
    for (Pod& pod : world.gang) {
      if (any(0, 3) == 0) pod = {{pod.place.slot, pod.place.incarnation + 1}, any_node(world)};
    }
    if (any(0, 3) == 0 && world.gang.size() > 1) world.gang.erase(world.gang.begin() + any(0, 1));
    if (any(0, 3) == 0 && static_cast<int>(world.gang.size()) < most_members) {
      const auto highest = std::max_element(world.gang.begin(), world.gang.end(), [](const Pod& one, const Pod& other) {
        return one.place.slot < other.place.slot;
      });
      world.gang.push_back({{highest->place.slot + any(1, 100), 1}, any_node(world)});
    }
  }
  static std::vector<LocatedMember> located(const World& world) {
    std::vector<LocatedMember> members;
    for (const Pod& pod : world.gang) members.push_back({pod.place, Path(pod.path.begin(), pod.path.end())});
    return members;
  }
  static std::vector<Place> order(const World& world) { return rank_order(world.before, located(world)); }

  static const Pod& pod_of(const World& world, const Place& place) {
    return *std::find_if(world.gang.begin(), world.gang.end(), [&](const Pod& pod) { return pod.place == place; });
  }
  static std::vector<std::vector<std::string>> paths(const World& world, const std::vector<Place>& ranks) {
    std::vector<std::vector<std::string>> found;
    for (const Place& place : ranks) found.push_back(pod_of(world, place).path);
    return found;
  }
  // How often a ring over the ranks enters or leaves a domain of the first `depth` names.
  static std::size_t crossings(const std::vector<std::vector<std::string>>& ranks, std::size_t depth) {
    const auto differ = [&](const auto& a, const auto& b) {
      return !std::equal(a.begin(), a.begin() + static_cast<long>(depth), b.begin());
    };
    std::size_t count = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) count += differ(ranks[i], ranks[(i + 1) % ranks.size()]) ? 2 : 0;
    return count;
  }
  static std::size_t domains(const std::vector<std::vector<std::string>>& ranks, std::size_t depth) {
    std::set<std::vector<std::string>> found;
    for (const auto& path : ranks) found.emplace(path.begin(), path.begin() + static_cast<long>(depth));
    return found.size();
  }
  // The members of each domain are neighbours.
  static bool depth_first(const std::vector<std::vector<std::string>>& ranks) {
    for (std::size_t depth = 1; depth <= ranks.front().size(); ++depth) {
      std::size_t begun = 1;
      for (std::size_t i = 1; i < ranks.size(); ++i) {
        begun +=
            std::equal(ranks[i].begin(), ranks[i].begin() + static_cast<long>(depth), ranks[i - 1].begin()) ? 0 : 1;
      }
      if (begun != domains(ranks, depth)) return false;
    }
    return true;
  }
  static std::map<Place, int> ranks_before(const World& world) {
    std::map<Place, int> ranks;
    for (const Place& place : world.before) ranks.emplace(place, static_cast<int>(ranks.size()));
    return ranks;
  }
  // In every domain, those inside of it that have survivors follow in the order of their lowest surviving rank. The new
  // ones follow by name, nodes and members by slot.
  static bool keeps_domains(const World& world, const std::vector<Place>& ranks) {
    const auto before = ranks_before(world);
    std::map<std::vector<std::string>, int> lowest;
    for (const Pod& pod : world.gang) {
      if (!before.contains(pod.place)) continue;
      for (std::size_t depth = 1; depth <= pod.path.size(); ++depth) {
        const std::vector<std::string> domain(pod.path.begin(), pod.path.begin() + static_cast<long>(depth));
        const auto [at, fresh] = lowest.emplace(domain, before.at(pod.place));
        if (!fresh) at->second = std::min(at->second, before.at(pod.place));
      }
    }
    std::map<std::vector<std::string>, int> last, slot;  // by parent; the lowest by domain
    std::map<std::vector<std::string>, std::pair<std::string, int>> newest;
    for (const Pod& pod : world.gang) {
      for (std::size_t depth = 1; depth <= pod.path.size(); ++depth) {
        const auto [at, fresh] = slot.emplace(
            std::vector<std::string>(pod.path.begin(), pod.path.begin() + static_cast<long>(depth)), pod.place.slot);
        if (!fresh) at->second = std::min(at->second, pod.place.slot);
      }
    }
    for (const Place& place : ranks) {
      const auto& path = pod_of(world, place).path;
      for (std::size_t depth = 1; depth <= path.size() + 1; ++depth) {
        const std::vector<std::string> parent(path.begin(), path.begin() + static_cast<long>(depth - 1));
        int now = -1;
        if (depth <= path.size()) {
          const auto at = lowest.find({path.begin(), path.begin() + static_cast<long>(depth)});
          if (at != lowest.end()) now = at->second;
        } else if (before.contains(place)) {
          now = before.at(place);
        }
        if (now < 0) {
          const bool domain = depth < path.size();
          const std::string name = domain ? path[depth - 1] : "";
          const int number = domain                 ? 0
                             : depth == path.size() ? slot.at({path.begin(), path.begin() + static_cast<long>(depth)})
                                                    : place.slot;
          const std::pair<std::string, int> key{name, number};
          const auto [at, fresh] = newest.emplace(parent, key);
          if (!fresh && key < at->second) return false;
          at->second = key;
          continue;
        }
        const auto [at, fresh] = last.emplace(parent, now);
        if (!fresh && now < at->second) return false;
        at->second = now;
      }
    }
    return true;
  }
  static std::string in_words(const World& world, const std::vector<Place>& ranks) {
    std::string text = "before:";
    for (const Place& place : world.before) text += fmt::format(" {}.{}", place.slot, place.incarnation);
    text += "; ranks:";
    for (const Place& place : ranks) {
      text += fmt::format(" {}.{}={}", place.slot, place.incarnation, fmt::join(pod_of(world, place).path, "/"));
    }
    return text;
  }
  static int unchanged(const World& world, const std::vector<Place>& ranks) {
    const auto before = ranks_before(world);
    int count = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto at = before.find(ranks[i]);
      count += at != before.end() && at->second == static_cast<int>(i) ? 1 : 0;
    }
    return count;
  }
};

TEST_F(RankOrderProperty, every_member_once_depth_first_and_domains_keep_their_order) {
  for (int round = 0; round < sanitizer::cases(400); ++round) {
    World world = start(40);
    for (int generation = 0; generation < 8; ++generation) {
      const std::vector<Place> ranks = order(world);
      std::set<Place> all;
      for (const Pod& pod : world.gang) all.insert(pod.place);
      ASSERT_EQ(std::set<Place>(ranks.begin(), ranks.end()), all);
      ASSERT_EQ(ranks.size(), world.gang.size());
      const auto where = paths(world, ranks);
      ASSERT_TRUE(depth_first(where)) << in_words(world, ranks);
      for (std::size_t depth = 1; depth <= where.front().size(); ++depth) {
        const std::size_t used = domains(where, depth);
        ASSERT_EQ(crossings(where, depth), used == 1 ? 0 : 2 * used) << in_words(world, ranks);
      }
      ASSERT_TRUE(keeps_domains(world, ranks)) << in_words(world, ranks);
      world.before = ranks;
      disturb(world, 40);
    }
  }
}

TEST_F(RankOrderProperty, the_same_gang_keeps_its_ranks_in_whatever_order_it_is_given) {
  for (int round = 0; round < sanitizer::cases(400); ++round) {
    World world = start(40);
    for (int generation = 0; generation < 4; ++generation) {
      const std::vector<Place> ranks = order(world);
      std::vector<LocatedMember> shuffled = located(world);
      std::shuffle(shuffled.begin(), shuffled.end(), random);
      ASSERT_EQ(rank_order(world.before, shuffled), ranks);
      ASSERT_EQ(rank_order(ranks, shuffled), ranks);
      world.before = ranks;
      disturb(world, 40);
    }
  }
}

TEST_F(RankOrderProperty, successors_in_the_domain_change_only_the_failed_ranks) {
  for (int round = 0; round < sanitizer::cases(1'000); ++round) {
    World world = start(40);
    // A node for each pod: a successor leaves nobody behind on its node.
    for (std::size_t i = 0; i < world.gang.size(); ++i) world.gang[i].path.back() = fmt::format("node-{}", i);
    world.before = order(world);
    // One pod, or several that leave a survivor in their rack.
    std::map<std::vector<std::string>, int> left;
    for (const Pod& pod : world.gang) ++left[{pod.path.begin(), pod.path.end() - 1}];
    const bool one = any(0, 1) == 0;
    const auto only = static_cast<std::size_t>(any(0, static_cast<int>(world.gang.size()) - 1));
    for (std::size_t i = 0; i < world.gang.size(); ++i) {
      Pod& pod = world.gang[i];
      if (one ? i != only : any(0, 3) != 0 || --left[{pod.path.begin(), pod.path.end() - 1}] < 1) continue;
      ++pod.place.incarnation;
      pod.path.back() += "-next";
    }
    const auto survivors =
        std::count_if(world.gang.begin(), world.gang.end(), [](const Pod& pod) { return pod.place.incarnation == 1; });
    ASSERT_EQ(unchanged(world, order(world)), survivors) << in_words(world, order(world));
  }
}

// Against every depth-first order in which domains keep theirs.
TEST_F(RankOrderProperty, as_many_ranks_are_unchanged_as_the_rules_allow) {
  for (int round = 0; round < sanitizer::cases(3'000); ++round) {
    World world = start(6);
    world.before = order(world);
    disturb(world, 6);
    const std::vector<Place> ranks = order(world);
    std::vector<Place> each = ranks;
    std::sort(each.begin(), each.end());
    int most = 0;
    do {
      if (depth_first(paths(world, each)) && keeps_domains(world, each)) most = std::max(most, unchanged(world, each));
    } while (std::next_permutation(each.begin(), each.end()));
    ASSERT_EQ(unchanged(world, ranks), most) << in_words(world, ranks);
  }
}

}  // namespace
}  // namespace lockstep::rendezvous
