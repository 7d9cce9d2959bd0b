// The peers' rules against published examples of their behaviour; the simulation, the gangs and the figures.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "tests/bench/placement/experiments.h"

namespace lockstep::bench {
namespace {

using Counts = std::map<std::string, int>;  // pods, by node

// Nodes "block/rack/node" with room for so many pods of one GPU.
World world_of(const std::vector<std::pair<std::string, int>>& nodes, std::vector<int> shapes = {1}) {
  std::vector<NodeSpec> specs;
  for (const auto& [path, pods] : nodes) {
    const auto first = path.find('/'), second = path.find('/', first + 1);
    specs.push_back({path.substr(0, first), path.substr(first + 1, second - first - 1), path.substr(second + 1), pods});
  }
  return World(specs, std::move(shapes));
}

Counts placed(Policy& policy, const World& world, const Ask& ask) {
  Counts counts;
  for (const auto& [node, pods] : policy.place(world, ask)) counts[world.tree().node_name(node)] += pods;
  return counts;
}

Ask pods(int count, std::optional<int> required = {}, std::optional<int> preferred = {}) {
  Ask ask;
  ask.pods = count;
  ask.gpus = 1;
  ask.required = required;
  ask.preferred = preferred;
  return ask;
}

// KEP-2724, "Computing the assignment", the example of a rack with four nodes.
TEST(Kueue, takes_the_nodes_of_the_example_of_its_kep) {
  const World world = world_of({{"b/r/n1", 3}, {"b/r/n2", 3}, {"b/r/n3", 2}, {"b/r/n4", 1}});
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(7, kRack)), (Counts{{"n1", 3}, {"n2", 3}, {"n4", 1}}));
  EXPECT_EQ(placed(*kueue_least_free(), world, pods(7, kRack)), (Counts{{"n1", 3}, {"n2", 1}, {"n3", 2}, {"n4", 1}}));
}

// Kueue's table test of TAS, "minimize the number of used racks before optimizing the number of nodes".
TEST(Kueue, best_fit_takes_few_racks_before_few_nodes) {
  const World world =
      world_of({{"b1/r1/x1", 2}, {"b1/r2/x2", 2}, {"b1/r3/x3", 1}, {"b1/r3/x4", 1}, {"b1/r3/x5", 1}, {"b1/r3/x6", 1}});
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(4, kBlock)), (Counts{{"x3", 1}, {"x4", 1}, {"x5", 1}, {"x6", 1}}));
}

// The same table: "minimize resource fragmentation" and "choose the node that can accommodate all Pods".
TEST(Kueue, the_two_profiles_differ_in_small_nodes) {
  const World world = world_of({{"b1/r1/x1", 2}, {"b1/r1/x2", 1}, {"b1/r1/x3", 1}});
  EXPECT_EQ(placed(*kueue_least_free(), world, pods(2, kBlock)), (Counts{{"x2", 1}, {"x3", 1}}));
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(2, kBlock)), (Counts{{"x1", 2}}));
}

// Kueue's issue 5375: domains of one and two pods, a workload of two.
TEST(Kueue, least_free_takes_one_domain_where_one_is_enough) {
  const World world = world_of({{"b1/r1/x1", 1}, {"b1/r1/x2", 2}, {"b1/r1/x3", 3}});
  EXPECT_EQ(placed(*kueue_least_free(), world, pods(2)), (Counts{{"x2", 2}}));
}

// Kueue's documentation, "Topology Aware Scheduling", annotations: preferred climbs and may take several domains of
// the outermost level; required does not.
TEST(Kueue, preferred_climbs_and_required_does_not) {
  const World world = world_of({{"b1/r1/x1", 2}, {"b1/r2/x2", 2}, {"b2/r3/x3", 3}});
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(4, {}, kRack)), (Counts{{"x1", 2}, {"x2", 2}}));
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(6, {}, kRack)), (Counts{{"x1", 2}, {"x2", 1}, {"x3", 3}}));
  EXPECT_EQ(placed(*kueue_best_fit(), world, pods(4, kRack)), (Counts{}));
}

// Kueue's documentation, "Hot swap support": a required domain binds a replacement, a preferred one does not.
TEST(Kueue, a_preferred_replacement_looks_at_no_survivor) {
  const World world = world_of({{"b1/r1/x1", 3}, {"b2/r2/x2", 1}});
  Ask ask = pods(1, {}, kRack);
  ask.survivors = {{world.tree().find("x1"), 2}};
  EXPECT_EQ(placed(*kueue_best_fit(), world, ask), (Counts{{"x2", 1}}));
  ask.required = kRack;
  EXPECT_EQ(placed(*kueue_best_fit(), world, ask), (Counts{{"x1", 1}}));
}

// Koordinator's table test of the solver, TestDistributeOfferSlot: one spine with two blocks.
TEST(Koordinator, distributes_as_the_example_of_its_solver) {
  const World world = world_of({{"s1/b1/n1", 5}, {"s1/b1/n2", 7}, {"s1/b2/n3", 6}, {"s1/b2/n4", 4}});
  EXPECT_EQ(placed(*koordinator_policy(), world, pods(15)), (Counts{{"n1", 5}, {"n2", 7}, {"n3", 3}}));
}

// Koordinator's table test of the solver, TestTopologyNodeLessFunc: of blocks with equal room, the one whose spine has
// less comes first, then the first name.
TEST(Koordinator, compares_room_layer_by_layer) {
  const World world = world_of({{"s1/b1/n1", 1},
                                {"s1/b1/n2", 1},
                                {"s1/b2/n3", 1},
                                {"s1/b2/n4", 1},
                                {"s2/b3/n5", 1},
                                {"s2/b3/n6", 1},
                                {"s2/b4/n7", 1}});
  EXPECT_EQ(placed(*koordinator_policy(), world, pods(2, kBlock)), (Counts{{"n5", 1}, {"n6", 1}}));
}

// The same table, ExistingPodNum: pods of the gang come before room.
TEST(Koordinator, replaces_near_the_survivors) {
  const World world = world_of({{"s1/b1/n1", 3}, {"s1/b2/n2", 2}, {"s2/b3/n3", 1}});
  Ask ask = pods(1, {}, kRack);
  ask.survivors = {{world.tree().find("n1"), 2}};
  EXPECT_EQ(placed(*koordinator_policy(), world, ask), (Counts{{"n1", 1}}));
}

// The tree of KAI's design document "Topology Aware Scheduling", with the GPUs that it shows.
World tree_of_kai() {
  return world_of({{"zone-a/rack-a1/a1", 2},
                   {"zone-a/rack-a1/a2", 2},
                   {"zone-a/rack-a1/a3", 2},
                   {"zone-a/rack-a2/a4", 4},
                   {"zone-a/rack-a3/a5", 2},
                   {"zone-a/rack-a3/a6", 2},
                   {"zone-a/rack-a3/a7", 2},
                   {"zone-b/rack-b1/b1", 4},
                   {"zone-b/rack-b1/b2", 4},
                   {"zone-b/rack-b2/b3", 2},
                   {"zone-c/rack-c1/c1", 2},
                   {"zone-c/rack-c1/c2", 4}},
                  {2});
}

// That document, "Pre Process": with bin packing, the domain with the least resources that fits.
TEST(Kai, takes_the_tightest_domain) {
  Ask ask = pods(3, {}, kRack);
  ask.gpus = 2;
  EXPECT_EQ(placed(*kai_policy(), tree_of_kai(), ask), (Counts{{"c1", 1}, {"c2", 2}}));
  ask.pods = 4;
  EXPECT_EQ(placed(*kai_policy(), tree_of_kai(), ask), (Counts{{"b1", 2}, {"b2", 2}}));
}

// KAI's documentation, "Topology": the preferred level first, then up to the required one.
TEST(Kai, goes_up_to_the_required_level_only) {
  Ask ask = pods(5, kBlock, kRack);
  ask.gpus = 2;
  EXPECT_EQ(placed(*kai_policy(), tree_of_kai(), ask), (Counts{{"b1", 2}, {"b2", 2}, {"b3", 1}}));
  ask.required = kRack;
  EXPECT_EQ(placed(*kai_policy(), tree_of_kai(), ask), (Counts{}));
}

// KAI's node scores are rounded down: of 40 racks, the last three have the same score, and the tightest of these does
// not come first.
TEST(Kai, preferred_domains_tie_in_large_clusters) {
  std::vector<std::pair<std::string, int>> nodes;
  for (int rack = 0; rack < 40; ++rack) {
    for (int node = 0; node <= (rack == 0 ? 1 : 0); ++node) {
      const std::string number = std::to_string(100 + rack);
      nodes.emplace_back("b/r" + number + "/n" + number + std::to_string(node), 1);
    }
  }
  // Rack 0 has two nodes and is the last by packing; racks 1 to 39 have one each.
  const Counts found = placed(*kai_policy(), world_of(nodes), pods(39, {}, kRack));
  EXPECT_EQ(found.count("n1000"), 1U);
  EXPECT_EQ(found.count("n1001"), 1U);
  EXPECT_EQ(found.count("n1390"), 0U);
}

// Slurm's "Topology Guide": the lowest switch that can satisfy the job, and best fit on its leaves.
TEST(Slurm, takes_the_tightest_leaf_that_holds_the_job) {
  const World world = world_of({{"s0/l0/n0", 4}, {"s0/l1/n1", 3}, {"s1/l2/n2", 5}, {"s1/l3/n3", 2}});
  EXPECT_EQ(placed(*slurm_tree(), world, pods(3)), (Counts{{"n1", 3}}));
  EXPECT_EQ(placed(*slurm_tree(), world, pods(5)), (Counts{{"n2", 5}}));
}

TEST(Slurm, stays_below_the_lowest_switch_that_holds_the_job) {
  const World world = world_of({{"s0/l0/n0", 4}, {"s0/l1/n1", 3}, {"s1/l2/n2", 6}, {"s1/l3/n3", 2}});
  EXPECT_EQ(placed(*slurm_tree(), world, pods(7)), (Counts{{"n0", 4}, {"n1", 3}}));
  EXPECT_EQ(placed(*slurm_tree(), world, pods(8)), (Counts{{"n2", 6}, {"n3", 2}}));
}

TEST(Slurm, takes_large_leaves_first_and_the_tightest_last) {
  const World world = world_of({{"s0/l0/n0", 4}, {"s0/l1/n1", 3}, {"s0/l2/n2", 3}, {"s0/l3/n3", 1}});
  EXPECT_EQ(placed(*slurm_tree(), world, pods(8)), (Counts{{"n0", 4}, {"n1", 3}, {"n3", 1}}));
  EXPECT_EQ(placed(*slurm_tree(), world, pods(5)), (Counts{{"n0", 4}, {"n3", 1}}));
}

// The rack where a policy puts a gang of one, of two racks with as much room. Two other gangs have the rest of one rack
// each.
std::string rack_chosen(Policy& policy, Resident of_the_first, Resident of_the_second) {
  World world({1, 2, 4, 1}, {1});
  world.take({{2, 1}, {3, 1}, {6, 1}, {7, 1}}, 1);
  std::vector<Resident> residents(8);
  residents[2] = residents[3] = of_the_first;
  residents[6] = residents[7] = of_the_second;
  Ask ask = pods(1, {}, kRack);
  ask.seconds = 1000;
  ask.residents = residents;
  const NodePods nodes = policy.place(world, ask);
  return world.tree().path(world.tree().domain_of(nodes.front().first)).back();
}

TEST(Oracle, goes_where_the_others_stay) {
  const Resident leaving{1, 100, 10}, staying{5, 100, 5000};
  EXPECT_EQ(rack_chosen(*oracle_policy(), leaving, staying), "r00001");
  EXPECT_EQ(rack_chosen(*oracle_policy(), staying, leaving), "r00000");
}

TEST(Lockstep, goes_where_the_others_have_run_for_long) {
  const Resident young{1, placement::kYoungSeconds - 1, 0}, old{5, placement::kYoungSeconds, 0};
  EXPECT_EQ(rack_chosen(*lockstep_policy(), young, old), "r00001");
  EXPECT_EQ(rack_chosen(*lockstep_policy(), old, young), "r00000");
}

// By the default objective, but for the spans of nodes, which all assignments share.
double cost(const World& world, const NodePods& nodes) {
  std::map<DomainId, int> taken;
  for (const auto& [node, count] : nodes) {
    taken[world.tree().domain_of(node, kRack)] += count;
    taken[world.tree().domain_of(node, kBlock)] += count;
  }
  const placement::Objective objective = placement::default_objective(2);
  double cost = 0;
  for (const auto& [domain, count] : taken) {
    const auto level = static_cast<std::size_t>(world.tree().level(domain));
    const auto free = static_cast<double>(world.room(1)[static_cast<std::size_t>(domain)]);
    const double nodes_of_it = world.tree().node_count(domain);
    cost += objective.span[level] + objective.lambda * objective.hole[level] * nodes_of_it *
                                        (std::pow(free / nodes_of_it, objective.power[level]) -
                                         std::pow((free - count) / nodes_of_it, objective.power[level]));
  }
  return cost;
}

TEST(Oracle, without_knowledge_decides_as_lockstep_does) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    World world({3, 3, 4, 1}, {1});
    for (NodeId node = 0; node < 36; ++node) world.take({{node, static_cast<int>(random() % 2)}}, 1);
    Ask ask = pods(1 + static_cast<int>(random() % 20), {}, kRack);
    if (random() % 3 == 0) ask.required = static_cast<int>(random() % 2);
    const NodePods ours = lockstep_policy()->place(world, ask), theirs = oracle_policy()->place(world, ask);
    ASSERT_EQ(ours.size(), theirs.size()) << round;
    ASSERT_NEAR(cost(world, ours), cost(world, theirs), 1e-6) << round;
  }
}

TEST(Policies, place_what_fits_within_what_is_required) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    World world({2, 3, 4, 4}, {1, 2, 4});
    for (NodeId node = 0; node < 24; ++node) world.take({{node, static_cast<int>(random() % 5)}}, 1);
    Ask ask = pods(1 + static_cast<int>(random() % 20));
    ask.gpus = 1 << (random() % 3);
    if (random() % 2 == 0) ask.preferred = kRack;
    if (random() % 2 == 0) ask.required = static_cast<int>(random() % 2);
    const bool fits = world.largest(ask.gpus, ask.required.value_or(kClusterLevel)) >= ask.pods;
    for (const std::string& name : policy_names()) {
      const NodePods nodes = policy_of(name, 1)->place(world, ask);
      ASSERT_EQ(!nodes.empty(), fits) << name << ", round " << round;
      int all = 0;
      std::map<NodeId, int> taken;
      for (const auto& [node, count] : nodes) {
        all += count;
        taken[node] += count;
        if (!ask.required) continue;
        EXPECT_EQ(world.tree().domain_of(node, *ask.required),
                  world.tree().domain_of(nodes.front().first, *ask.required))
            << name;
      }
      EXPECT_EQ(all, fits ? ask.pods : 0) << name;
      for (const auto& [node, count] : taken) EXPECT_LE(count * ask.gpus, world.free_gpus(node)) << name;
    }
  }
}

TEST(Simulation, a_gang_waits_for_the_one_before_it) {
  Trial trial;
  trial.site = {1, 1, 2, 8};
  trial.warm_up = 0;
  trial.gangs = {{0, 100, 2, 8, {}, kRack}, {10, 50, 1, 8, {}, kRack}};
  const Outcome outcome = simulate(trial, *kueue_best_fit());
  EXPECT_EQ(outcome.wait.count, 2);
  EXPECT_DOUBLE_EQ(outcome.wait.sum, 90);
}

TEST(Simulation, a_gang_stands_still_until_a_failed_node_is_replaced) {
  Trial trial;
  trial.site = {1, 1, 4, 8};
  trial.warm_up = 0;
  trial.repair_seconds = 1000;
  trial.failures = 0.34;  // one, before the last arrival, on a node of the first gang by this seed
  trial.gangs = {{0, 500, 3, 8, {}, kRack}, {0, 5000, 1, 8, {}, kRack}, {400, 50, 2, 8, {}, kRack}};
  const Outcome outcome = simulate(trial, *lockstep_policy());
  EXPECT_EQ(outcome.stayed.count, 1);
  EXPECT_DOUBLE_EQ(outcome.stayed.value(), 1);
  EXPECT_DOUBLE_EQ(outcome.wait.sum, 1500 - 400);
}

TEST(Simulation, says_what_any_choice_could_do) {
  Trial trial;
  trial.site = {2, 2, 2, 8};
  trial.warm_up = 0;
  // Each of the first gangs takes a rack; when two of them have ended, the last one gets the other two racks.
  trial.gangs = {{0, 100, 2, 8, {}, kRack},
                 {0, 900, 2, 8, {}, kRack},
                 {0, 100, 2, 8, {}, kRack},
                 {0, 900, 2, 8, {}, kRack},
                 {200, 50, 4, 8, {}, kRack}};
  const Outcome outcome = simulate(trial, *kueue_best_fit());
  EXPECT_EQ(outcome.no_choice.count, 1);
  EXPECT_DOUBLE_EQ(outcome.no_choice.value(), 1);
  EXPECT_DOUBLE_EQ(outcome.fewest_over_least.value(), 1);
  EXPECT_DOUBLE_EQ(outcome.blocks_over_least.value(), 2);
}

TEST(Simulation, rings_of_ranks_cross_as_rarely_as_possible) {
  Trial trial;
  trial.site = {2, 4, 4, 8};
  trial.gangs = draw_gangs(trial.site, {300, 1, 0.8, Mode::kPreferred}, 3);
  for (Gang& gang : trial.gangs) gang.pods = std::min(gang.pods, 20);
  trial.failures = 0.3;
  for (const std::string& name : policy_names()) {
    const Outcome outcome = simulate(trial, *policy_of(name, 1));
    EXPECT_GT(outcome.rings, 240);
    EXPECT_EQ(outcome.above_least, 0) << name;
    EXPECT_EQ(outcome.ranks, outcome.least) << name;
    EXPECT_GT(outcome.by_slot.racks, outcome.least.racks) << name;
  }
}

TEST(Simulation, the_same_trial_gives_the_same_result) {
  Plan plan;
  plan.site = {2, 4, 4, 8};
  plan.gangs = 200;
  plan.seeds = {5, 6};
  const Experiment experiment{"packing", 0.9, Mode::kPreferred, 0.1};
  const Outcomes alone = run(plan, experiment, {"lockstep"}).at("lockstep");
  plan.threads = 3;
  const Outcomes beside = run(plan, experiment, {"lockstep", "random"}).at("lockstep");
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(alone[i].wait.sum, beside[i].wait.sum);
    EXPECT_EQ(alone[i].racks_over_least.sum, beside[i].racks_over_least.sum);
    EXPECT_EQ(alone[i].rings, beside[i].rings);
  }
}

TEST(Rings, cross_once_per_domain_at_least) {
  const World world({2, 2, 2, 8}, {8});
  EXPECT_EQ(crossings(world.tree(), {0, 1, 2, 3}), (Crossings{2, 0}));
  EXPECT_EQ(crossings(world.tree(), {0, 2, 1, 3}), (Crossings{4, 0}));
  EXPECT_EQ(crossings(world.tree(), {0, 4, 1, 5}), (Crossings{4, 4}));
  EXPECT_EQ(least_crossings(world.tree(), {0, 4, 1, 5}), (Crossings{2, 2}));
  EXPECT_EQ(least_crossings(world.tree(), {0, 1}), (Crossings{0, 0}));
}

TEST(Gangs, have_the_load_that_is_asked_for) {
  const Site site;
  const auto gangs = draw_gangs(site, {5000, 1, 0.9, Mode::kRequired}, 1);
  double work = 0;
  for (const Gang& gang : gangs) {
    work += gang.seconds * gang.pods;
    EXPECT_EQ(gang.required, gang.pods <= 16 ? kRack : kBlock);
    EXPECT_GE(gang.pods, 1);
    EXPECT_LE(gang.pods, 256);
  }
  EXPECT_NEAR(work / (gangs.back().arrival * site.all_nodes()), 0.9, 1e-9);
}

class TraceFile {
 public:
  explicit TraceFile(const std::string& text) { std::ofstream(path) << text; }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() { std::filesystem::remove(path); }
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + "-packing_test.trace";
};

TEST(Traces, jobs_become_pods_of_whole_nodes_and_parts_of_one) {
  const TraceFile file("a\tcmd\t-n\t1\t100\t0.0\t4\na\tcmd\t-n\t1\t300\t5.5\t16\nb\tcmd\t-n\t0\t7\t2\t8\n");
  const auto gangs = read_trace(file.path, Site{}, 0.5, Mode::kPreferred);
  ASSERT_TRUE(gangs) << gangs.error().message;
  ASSERT_EQ(gangs->size(), 3U);
  EXPECT_EQ((*gangs)[0].gpus, 4);
  EXPECT_EQ((*gangs)[1].pods, 1);
  EXPECT_EQ((*gangs)[2].pods, 2);
  EXPECT_DOUBLE_EQ((*gangs)[2].seconds, 1800);
  EXPECT_DOUBLE_EQ((*gangs)[0].seconds, 600);
}

TEST(Traces, a_line_that_cannot_be_read_is_named) {
  for (const char* text : {"", "a\tb\n", "a\tcmd\t-n\t1\tmany\t0\t1\n", "a\tcmd\t-n\t1\t5\t0\t0\n",
                           "a\tcmd\t-n\t1\t5\t-1\t1\n", "a\tcmd\t-n\t1\t5\t0\t1e9\n", "a\tcmd\t-n\t1\t5\t0\tnan\n"}) {
    const TraceFile file(text);
    const auto gangs = read_trace(file.path, Site{}, 0.5, Mode::kPreferred);
    ASSERT_FALSE(gangs) << text;
    EXPECT_NE(gangs.error().message.find("packing_test.trace"), std::string::npos);
  }
}

TEST(Estimates, follow_student) {
  const Estimate found = estimate({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(found.mean, 2.5);
  EXPECT_NEAR(found.half, 3.182 * 1.2909944 / 2, 1e-6);
  EXPECT_EQ(estimate({5}).half, 0);
}

}  // namespace
}  // namespace lockstep::bench
