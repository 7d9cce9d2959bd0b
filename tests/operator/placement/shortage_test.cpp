// Scripted situations and the verdict on each, as text: the sentence, why nodes are barred, what is short, and advice.
#include "operator/placement/shortage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

namespace lockstep::placement {
namespace {

constexpr const char* kGpuName = "nvidia.com/gpu";
constexpr int kBlocks = 0, kRacks2 = 1, kNodes = 2;
constexpr std::int64_t kGi = 1 << 30;

// Two blocks: rack r1 (n1, n2) and rack r2 (n3, n4) in block b1, rack r3 (n5, n6) in block b2. A node has 8 GPUs, 64
// CPUs and 512 GiB. The gang is four pods of 8 GPUs each.
class Site {
 public:
  Site() {
    const std::vector<std::vector<std::string>> all = {{"n1", "b1", "r1"}, {"n2", "b1", "r1"}, {"n3", "b1", "r2"},
                                                       {"n4", "b1", "r2"}, {"n5", "b2", "r3"}, {"n6", "b2", "r3"}};
    for (const auto& one : all) {
      NodeRecord& node = nodes_[one[0]];
      node.name = one[0];
      node.labels = {{"b", one[1]}, {"r", one[2]}};
      node.allocatable = {{"cpu", 64'000}, {"memory", 512 * kGi}, {kGpuName, 8}, {"pods", 110}};
      node.ready = true;
    }
    shape.requests = {{"cpu", 8000}, {"memory", 64 * kGi}, {kGpuName, 8}, {"pods", 1}};
    search.pods = 4;
  }

  NodeRecord& node(const std::string& name) { return nodes_.at(name); }
  void remove_node(const std::string& name) { nodes_.erase(name); }
  void each_node(const std::function<void(NodeRecord&)>& change) {
    for (auto& [name, node] : nodes_) change(node);
  }
  // A pod of so many GPUs on each of the nodes; of a job where one is named.
  void run(const std::string& job, const std::vector<std::string>& nodes, std::int64_t gpus = 8, int priority = 0,
           std::uint16_t flags = kBound) {
    for (const std::string& node : nodes) {
      ScannedPod pod;
      pod.name_space = "x";
      pod.name = fmt::format("{}-{}", job, pods_.size());
      pod.uid = Uid::of(pod.name);
      if (!job.empty()) pod.job = Uid::of(job);
      pod.node = node;
      pod.priority = priority;
      pod.flags = flags;
      pod.requests = {{"pods", 1}};
      if (gpus > 0) pod.requests.insert(pod.requests.begin(), {kGpuName, gpus});
      pods_.push_back(pod);
    }
    if (!job.empty()) jobs.try_emplace(Uid::of(job), KnownJob{"x/" + job, WallTime(std::chrono::hours(jobs.size()))});
  }
  // Pods of the gang that run and stay.
  void survive(const std::vector<std::string>& nodes) {
    run("self", nodes);
    survivors_.insert(survivors_.end(), nodes.begin(), nodes.end());
  }
  void survive_on(const std::string& node) { survivors_.push_back(node); }
  void close(const std::string& node) { closed_.push_back(node); }

  Verdict judge() {
    Cluster cluster{{"test", {{"block", "b"}, {"rack", "r"}}}};
    std::sort(shape.requests.begin(), shape.requests.end());
    search.shape = cluster.acquire(shape);
    if (listed) {
      cluster.begin_nodes();
      for (const auto& [name, node] : nodes_) cluster.put_node(node);
      cluster.end_nodes();
      cluster.begin_pods();
      for (const ScannedPod& pod : pods_) cluster.put_pod(pod);
      cluster.end_pods();
    }
    for (const std::string& name : survivors_) search.survivors.emplace_back(cluster.tree().find(name), 1);
    for (const std::string& name : closed_) search.closed.push_back(cluster.tree().find(name));
    verdict = explain_refusal(cluster, search, self, jobs);
    text = sentence_of(cluster.tree(), verdict) + "\n";
    for (const BarredNodes& barred : verdict.barred)
      text += fmt::format("barred {}: {}\n", barred.nodes, reason_of(barred));
    for (const Shortage& one : verdict.shortages) {
      text += fmt::format("short {}: {} of {}, {} never\n", one.nodes, one.resource, in_words(one.resource, one.asked),
                          one.never);
    }
    for (const std::string& sentence : advice(cluster.tree(), verdict)) text += "hint: " + sentence + "\n";
    return verdict;
  }

  Shape shape;
  Search search;
  KnownJobs jobs;
  Uid self = Uid::of("self");
  bool listed = true;
  Verdict verdict;
  std::string text;

 private:
  std::map<std::string, NodeRecord> nodes_;
  std::vector<ScannedPod> pods_;
  std::vector<std::string> survivors_, closed_;
};

const std::vector<std::string> kAllNodes = {"n1", "n2", "n3", "n4", "n5", "n6"};

struct Situation {
  const char* name;
  void (*arrange)(Site& site);
  Verdict::Outcome outcome;
  std::string text;
};

std::ostream& operator<<(std::ostream& out, const Situation& situation) {
  return out << situation.name;
}

class Shortages : public testing::TestWithParam<Situation> {};

TEST_P(Shortages, are_explained) {
  Site site;
  GetParam().arrange(site);
  site.judge();
  EXPECT_EQ(static_cast<int>(site.verdict.outcome), static_cast<int>(GetParam().outcome));
  EXPECT_EQ(site.text, GetParam().text);
}

using Outcome = Verdict::Outcome;

const Situation kPlaced[] = {
    {"fits_into_a_block", [](Site& site) { site.search.required = kBlocks; }, Outcome::kFits,
     "4 pods fit into one block\n"},
    {"fits_into_a_rack",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.pods = 2;
     },
     Outcome::kFits, "2 pods fit into one rack\n"},
    {"fits_over_the_cluster", [](Site& site) { site.search.pods = 6; }, Outcome::kFits,
     "6 pods fit into the cluster\n"},
};

const Situation kRequired[] = {
    {"too_large_for_a_rack_and_would_start_preferred", [](Site& site) { site.search.required = kRacks2; },
     Outcome::kTooLarge,
     "4 pods can never fit into one rack: rack b1/r1 takes 2 when empty\n"
     "hint: with preferred instead of required it would start now, within one block\n"},
    {"one_of_two_in_a_rack_and_would_start_preferred",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.pods = 2;
       site.run("a", {"n1", "n3", "n5"});
     },
     Outcome::kNoRoom,
     "1 of 2 pods fits into one rack now (rack b1/r1)\n"
     "short 3: nvidia.com/gpu of 8, 0 never\n"
     "hint: with preferred instead of required it would start now, within one block\n"
     "hint: it would fit into rack b1/r1 if this job ended: x/a (1 pod there, priority 0)\n"},
    {"three_of_four_in_a_block_spans_the_cluster",
     [](Site& site) {
       site.search.required = kBlocks;
       site.run("a", {"n4"});
     },
     Outcome::kNoRoom,
     "3 of 4 pods fit into one block now (block b1)\n"
     "short 1: nvidia.com/gpu of 8, 0 never\n"
     "hint: with preferred instead of required it would start now, over the whole cluster\n"
     "hint: it would fit into block b1 if this job ended: x/a (1 pod there, priority 0)\n"},
    {"a_node_is_required_and_none_is_large_enough",
     [](Site& site) {
       site.search.required = kNodes;
       site.search.pods = 2;
     },
     Outcome::kTooLarge,
     "2 pods can never fit into one node: node n1 takes 1 when empty\n"
     "hint: with preferred instead of required it would start now, within one rack\n"},
    {"nodes_without_the_label_are_no_use",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.pods = 2;
       site.each_node([](NodeRecord& node) { node.labels.erase("r"); });
     },
     Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "barred 6: no label r\n"
     "hint: with preferred instead of required it would start now, within one block\n"},
};

const Situation kWholeCluster[] = {
    {"larger_than_the_cluster", [](Site& site) { site.search.pods = 7; }, Outcome::kTooLarge,
     "7 pods can never fit into the cluster: the cluster takes 6 when empty\n"},
    {"a_full_cluster", [](Site& site) { site.run("a", kAllNodes); }, Outcome::kNoRoom,
     "none of 4 pods fits into the cluster now\n"
     "short 6: nvidia.com/gpu of 8, 0 never\n"
     "hint: it would fit into the cluster if this job ended: x/a (6 pods there, priority 0)\n"},
    {"fragments_of_nodes", [](Site& site) { site.run("", kAllNodes, 1); }, Outcome::kNoRoom,
     "none of 4 pods fits into the cluster now\n"
     "short 6: nvidia.com/gpu of 8, 0 never\n"
     "hint: the end of TrainingJobs alone makes too little room: pods of others hold the rest\n"},
    {"pods_that_terminate",
     [](Site& site) {
       site.run("a", {"n1", "n2", "n3"}, 8, 0, kBound | kTerminating);
     },
     Outcome::kNoRoom,
     "3 of 4 pods fit into the cluster now\n"
     "short 3: nvidia.com/gpu of 8, 0 never\n"
     "hint: it fits once 3 pods are gone that are terminating\n"},
    {"a_cluster_without_nodes",
     [](Site& site) {
       for (const std::string& name : kAllNodes) site.remove_node(name);
     },
     Outcome::kNoNode, "no node can take such a pod, even when empty (the cluster has 0)\n"},
};

const Situation kNodeByNode[] = {
    {"all_nodes_are_tainted",
     [](Site& site) { site.each_node([](NodeRecord& node) {
                        node.taints = {{"team", "vision", "NoSchedule"}};
                      }); },
     Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "barred 6: taint team=vision:NoSchedule\n"},
    {"a_taint_is_tolerated",
     [](Site& site) {
       site.each_node([](NodeRecord& node) { node.taints = {{"team", "vision", "NoSchedule"}}; });
       site.shape.tolerations = {{.key = "team", .exists = true, .value = "", .effect = ""}};
     },
     Outcome::kFits, "4 pods fit into one block\n"},
    {"no_node_has_the_selected_label",
     [](Site& site) {
       site.shape.node_selector = {{"gpu", "h100"}};
     },
     Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "barred 6: not gpu=h100\n"},
    {"the_affinity_names_one_node",
     [](Site& site) {
       site.shape.terms = {{{{}, {{"metadata.name", Relation::kIn, {"n1"}}}}}};
     },
     Outcome::kTooLarge,
     "4 pods can never fit into the cluster: the cluster takes 1 when empty\n"
     "barred 5: node affinity\n"},
    {"sick_cordoned_not_ready_and_out_of_service",
     [](Site& site) {
       site.node("n1").unschedulable = true;
       site.node("n2").ready = false;
       site.node("n3").out_of_service = true;
       site.node("n4").unschedulable = true;
       site.node("n5").sickness = "condition:XIDErrors=True";
       site.node("n5").unschedulable = true;
     },
     Outcome::kTooLarge,
     "4 pods can never fit into the cluster: the cluster takes 1 when empty\n"
     "barred 1: out of service\n"
     "barred 1: not ready\n"
     "barred 1: sick by condition:XIDErrors=True\n"
     "barred 2: cordoned\n"},
    {"a_pod_is_larger_than_every_node", [](Site& site) { site.shape.requests[2].units = 16; }, Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "short 6: nvidia.com/gpu of 16, 6 never\n"},
    {"a_resource_that_no_node_has", [](Site& site) { site.shape.requests[2].name = "amd.com/gpu"; }, Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "short 6: amd.com/gpu of 8, 6 never\n"},
    {"cpu_is_short_and_gpus_are_not",
     [](Site& site) { site.each_node([](NodeRecord& node) { node.allocatable[0].units = 4000; }); }, Outcome::kNoNode,
     "no node can take such a pod, even when empty (the cluster has 6)\n"
     "short 6: cpu of 8, 6 never\n"},
    {"memory_is_short_on_three_nodes",
     [](Site& site) {
       for (const char* name : {"n1", "n2", "n3"}) site.node(name).allocatable[1].units = 32 * kGi;
     },
     Outcome::kTooLarge,
     "4 pods can never fit into the cluster: the cluster takes 3 when empty\n"
     "short 3: memory of 64Gi, 3 never\n"},
    {"the_pod_limit_of_a_node",
     [](Site& site) {
       site.each_node([](NodeRecord& node) { node.allocatable[3].units = 1; });
       site.run("", {"n1", "n2", "n3"}, 0);
     },
     Outcome::kNoRoom,
     "3 of 4 pods fit into the cluster now\n"
     "short 3: pods of 1, 0 never\n"
     "hint: the end of TrainingJobs alone makes too little room: pods of others hold the rest\n"},
    {"host_ports_of_another_job",
     [](Site& site) {
       site.shape.host_ports = true;
       site.run("a", {"n1", "n2", "n3"}, 0, 0, kBound | kHostPorts);
     },
     Outcome::kNoRoom,
     "3 of 4 pods fit into the cluster now\n"
     "barred 3: host port taken\n"
     "hint: it would fit into the cluster if this job ended: x/a (3 pods there, priority 0)\n"},
    {"an_avoided_node",
     [](Site& site) {
       site.search.pods = 6;
       site.close("n6");
     },
     Outcome::kTooLarge,
     "6 pods can never fit into the cluster: the cluster takes 5 when empty\n"
     "barred 1: kept free or avoided\n"},
    {"it_would_fit_only_where_it_may_not_go",
     [](Site& site) {
       site.search.pods = 2;
       site.search.required = kRacks2;
       site.run("a", {"n1", "n3"});
       for (const char* node : {"n5", "n6"}) site.close(node);
     },
     Outcome::kNoRoom,
     "1 of 2 pods fits into one rack now (rack b1/r1)\n"
     "barred 2: kept free or avoided\n"
     "short 2: nvidia.com/gpu of 8, 0 never\n"
     "hint: with preferred instead of required it would start now, within one block\n"
     "hint: it would fit into rack b1/r1 if this job ended: x/a (1 pod there, priority 0)\n"},
};

const Situation kExclusive[] = {
    {"more_pods_than_nodes_with_exclusive",
     [](Site& site) {
       site.shape.requests[2].units = 4;
       site.search.exclusive = true;
       site.search.pods = 8;
     },
     Outcome::kTooLarge,
     "8 pods can never fit into the cluster: the cluster takes 6 when empty\n"
     "hint: without exclusive it would start now\n"},
    {"exclusive_in_a_rack",
     [](Site& site) {
       site.shape.requests[2].units = 4;
       site.search.exclusive = true;
       site.search.required = kRacks2;
     },
     Outcome::kTooLarge,
     "4 pods can never fit into one rack: rack b1/r1 takes 2 when empty\n"
     "hint: with preferred instead of required it would start now, within one block\n"
     "hint: without exclusive it would start now\n"},
    {"exclusive_beside_a_pod_of_the_gang",
     [](Site& site) {
       site.shape.requests[2].units = 4;
       site.search.exclusive = true;
       site.search.required = kRacks2;
       site.search.pods = 1;
       site.run("self", {"n1"}, 4);
       site.survive_on("n1");
       site.run("", {"n2"});
     },
     Outcome::kNoRoom,
     "none of 1 pod fits into one rack now\n"
     "barred 1: a pod of the job is there\n"
     "short 1: nvidia.com/gpu of 4, 0 never\n"
     "hint: with preferred instead of required it would start now, within one block\n"
     "hint: without exclusive it would start now\n"
     "hint: the end of TrainingJobs alone makes too little room: pods of others hold the rest\n"},
};

const Situation kSpread[] = {
    {"pods_without_cpu_and_gpu_are_spread",
     [](Site& site) {
       site.shape.requests = {{"pods", 1}};
       site.search.spread = true;
       site.search.pods = 5;
     },
     Outcome::kFits, "5 pods fit into the cluster; pods without CPU or GPU requests are spread\n"},
    {"spread_over_the_rack_that_is_required",
     [](Site& site) {
       site.shape.requests = {{"pods", 1}};
       site.search.spread = true;
       site.search.required = kRacks2;
     },
     Outcome::kFits, "4 pods fit into one rack; pods without CPU or GPU requests are spread\n"},
    {"one_pod_is_not_spread",
     [](Site& site) {
       site.shape.requests = {{"pods", 1}};
       site.search.spread = true;
       site.search.pods = 1;
     },
     Outcome::kFits, "1 pod fits into one node\n"},
};

const Situation kJobsThatEnd[] = {
    {"the_job_of_lower_priority_ends_first",
     [](Site& site) {
       site.search.required = kBlocks;
       site.run("high", {"n1", "n2"}, 8, 100);
       site.run("low", {"n3", "n4"}, 8, -5);
       site.search.pods = 2;
       site.run("other", {"n5"}, 8, 100);
     },
     Outcome::kNoRoom,
     "1 of 2 pods fits into one block now (block b2)\n"
     "short 5: nvidia.com/gpu of 8, 0 never\n"
     "hint: it would fit into block b1 if this job ended: x/low (2 pods there, priority -5)\n"},
    {"the_younger_of_two_ends_first",
     [](Site& site) {
       site.search.pods = 1;
       site.run("old", {"n1", "n2", "n3"});
       site.run("young", {"n4", "n5", "n6"});
     },
     Outcome::kNoRoom,
     "none of 1 pod fits into the cluster now\n"
     "short 6: nvidia.com/gpu of 8, 0 never\n"
     "hint: it would fit into the cluster if this job ended: x/young (3 pods there, priority 0)\n"},
    {"a_small_job_that_is_not_needed_goes_on",
     [](Site& site) {
       site.search.pods = 5;
       site.run("large", {"n1", "n2", "n3", "n4", "n5"});
       site.run("small", {"n6"});
     },
     Outcome::kNoRoom,
     "none of 5 pods fits into the cluster now\n"
     "short 6: nvidia.com/gpu of 8, 0 never\n"
     "hint: it would fit into the cluster if this job ended: x/large (5 pods there, priority 0)\n"},
    {"the_job_that_asks_does_not_end",
     [](Site& site) {
       site.search.pods = 5;
       site.survive({"n1", "n2"});
     },
     Outcome::kTooLarge,
     "5 pods can never fit into the cluster: the cluster takes 4 when empty\n"
     "short 2: nvidia.com/gpu of 8, 0 never\n"},
};

const Situation kSurvivors[] = {
    {"survivors_hold_the_gang_in_their_rack",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.pods = 1;
       site.run("a", {"n2"});
       site.survive({"n1"});  // younger
     },
     Outcome::kNoRoom,
     "none of 1 pod fits into one rack now\n"
     "short 2: nvidia.com/gpu of 8, 0 never\n"
     "hint: with preferred instead of required it would start now, within one block\n"
     "hint: it would fit into rack b1/r1 if this job ended: x/a (1 pod there, priority 0)\n"},
    {"survivors_are_in_two_racks",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.pods = 1;
       site.survive({"n1", "n3"});
     },
     Outcome::kSurvivorsApart,
     "the pods that run are not in one rack, which is required\n"
     "short 2: nvidia.com/gpu of 8, 0 never\n"
     "hint: with preferred instead of required it would start now, within one block\n"},
};

const Situation kNoAnswer[] = {
    {"nothing_is_listed_yet", [](Site& site) { site.listed = false; }, Outcome::kUnknown,
     "the nodes are not listed yet\n"},
    {"required_inside_of_preferred",
     [](Site& site) {
       site.search.required = kRacks2;
       site.search.preferred = kBlocks;
     },
     Outcome::kInvalid, "required: rack is inside of the preferred level block\n"},
};

const auto kNameOf = [](const auto& info) { return std::string(info.param.name); };

INSTANTIATE_TEST_SUITE_P(Placed, Shortages, testing::ValuesIn(kPlaced), kNameOf);
INSTANTIATE_TEST_SUITE_P(Required, Shortages, testing::ValuesIn(kRequired), kNameOf);
INSTANTIATE_TEST_SUITE_P(WholeCluster, Shortages, testing::ValuesIn(kWholeCluster), kNameOf);
INSTANTIATE_TEST_SUITE_P(NodeByNode, Shortages, testing::ValuesIn(kNodeByNode), kNameOf);
INSTANTIATE_TEST_SUITE_P(Exclusive, Shortages, testing::ValuesIn(kExclusive), kNameOf);
INSTANTIATE_TEST_SUITE_P(Spread, Shortages, testing::ValuesIn(kSpread), kNameOf);
INSTANTIATE_TEST_SUITE_P(JobsThatEnd, Shortages, testing::ValuesIn(kJobsThatEnd), kNameOf);
INSTANTIATE_TEST_SUITE_P(Survivors, Shortages, testing::ValuesIn(kSurvivors), kNameOf);
INSTANTIATE_TEST_SUITE_P(NoAnswer, Shortages, testing::ValuesIn(kNoAnswer), kNameOf);

TEST(Shortage, holes_are_told_for_now_and_for_an_empty_cluster) {
  Site site;
  site.search.required = kRacks2;
  site.run("a", {"n1"});
  const Verdict verdict = site.judge();
  ASSERT_EQ(verdict.largest.size(), 4U);
  ASSERT_EQ(verdict.possible.size(), 4U);
  EXPECT_EQ(verdict.largest[0].pods, 5);
  EXPECT_EQ(verdict.possible[0].pods, 6);
  EXPECT_EQ(verdict.largest[2].pods, 2);
  EXPECT_EQ(verdict.fit_now, 2);
  EXPECT_EQ(verdict.open, 5);
}

TEST(Shortage, an_empty_cluster_has_no_pods_of_others) {
  Site site;
  site.run("", {"n1", "n2", "n3"});
  EXPECT_EQ(site.judge().possible.at(0).pods, 6);
  Site new_job;
  new_job.self = {};
  new_job.run("", {"n1", "n2", "n3"});
  EXPECT_EQ(new_job.judge().possible.at(0).pods, 6);
}

TEST(Shortage, many_jobs_are_counted_beyond_four) {
  Site site;
  for (const std::string& node : kAllNodes) site.run("job-" + node, {node});
  site.search.pods = 6;
  site.judge();
  EXPECT_NE(site.text.find("if these jobs ended: x/job-n6 (1 pod there, priority 0), x/job-n5 "), std::string::npos)
      << site.text;
  EXPECT_NE(site.text.find(", 2 more\n"), std::string::npos) << site.text;
}

}  // namespace
}  // namespace lockstep::placement
