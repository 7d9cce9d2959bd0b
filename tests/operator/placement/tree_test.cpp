#include "operator/placement/tree.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace lockstep::placement {
namespace {

const Profile kTwo{"two", {{"block", "b"}, {"rack", "r"}}};

// The tree as text: each domain with its children by name, in their order.
std::string drawn(const Tree& tree, DomainId domain = kRoot) {
  std::string text = tree.name(domain) + "[";
  for (const DomainId child : tree.children(domain)) text += drawn(tree, child);
  for (const NodeId node : tree.nodes(domain)) text += tree.node_name(node) + " ";
  return text + "]";
}

TEST(Tree, domains_and_nodes_are_ordered_by_name) {
  Tree tree(kTwo);
  tree.put("n3", {{"b", "B"}, {"r", "y"}});
  tree.put("n1", {{"b", "B"}, {"r", "x"}});
  tree.put("n2", {{"b", "A"}, {"r", "x"}});
  tree.put("n0", {{"b", "B"}, {"r", "y"}});
  EXPECT_EQ(drawn(tree), "[A[x[n2 ]]B[x[n1 ]y[n0 n3 ]]]");
  EXPECT_EQ(tree.path(tree.domain_of(tree.find("n3"))), (std::vector<std::string>{"B", "y"}));
  EXPECT_EQ(tree.level(tree.domain_of(tree.find("n3"))), 1);
  EXPECT_EQ(tree.domain_of(tree.find("n3"), kClusterLevel), kRoot);
  EXPECT_EQ(tree.name(tree.domain_of(tree.find("n3"), 0)), "B");
  EXPECT_EQ(tree.node_count(kRoot), 4);
}

TEST(Tree, the_same_value_under_two_parents_is_two_domains) {
  Tree tree(kTwo);
  const NodeId a = tree.put("a", {{"b", "A"}, {"r", "1"}});
  const NodeId b = tree.put("b", {{"b", "B"}, {"r", "1"}});
  EXPECT_NE(tree.domain_of(a), tree.domain_of(b));
  EXPECT_EQ(tree.name(tree.domain_of(a)), tree.name(tree.domain_of(b)));
}

TEST(Tree, a_node_named_like_a_domain_is_no_domain) {
  Tree tree(kTwo);
  const NodeId odd = tree.put("rack-1", {});
  const NodeId plain = tree.put("n", {{"b", "rack-1"}, {"r", "rack-1"}});
  EXPECT_NE(tree.domain_of(odd, 0), tree.domain_of(plain, 0));
  // Not even where a label has the form of a private domain's name, which Kubernetes does not allow.
  const NodeId forged = tree.put("m", {{"b", "(rack-1)"}, {"r", "x"}});
  EXPECT_NE(tree.domain_of(odd, 0), tree.domain_of(forged, 0));
  EXPECT_TRUE(tree.complete(forged, 0));
}

TEST(Tree, a_missing_label_makes_a_private_domain) {
  Tree tree(kTwo);
  const NodeId no_rack = tree.put("n1", {{"b", "A"}});
  const NodeId no_block = tree.put("n2", {{"r", "x"}});
  const NodeId empty = tree.put("n3", {{"b", ""}, {"r", "x"}});
  const NodeId whole = tree.put("n4", {{"b", "A"}, {"r", "x"}});
  EXPECT_TRUE(tree.complete(no_rack, kClusterLevel));
  EXPECT_TRUE(tree.complete(no_rack, 0));
  EXPECT_FALSE(tree.complete(no_rack, 1));
  EXPECT_FALSE(tree.complete(no_block, 0));
  EXPECT_FALSE(tree.complete(no_block, 1)) << "its rack has no known block";
  EXPECT_FALSE(tree.complete(empty, 0));
  EXPECT_TRUE(tree.complete(whole, 1));
  EXPECT_NE(tree.domain_of(no_block), tree.domain_of(empty));
  EXPECT_EQ(tree.domain_of(no_rack, 0), tree.domain_of(whole, 0));
}

TEST(Tree, a_node_that_moves_keeps_its_id_and_leaves_no_empty_domain) {
  Tree tree(kTwo);
  const NodeId node = tree.put("n", {{"b", "A"}, {"r", "x"}});
  const std::uint64_t before = tree.version(kRoot);
  EXPECT_EQ(tree.put("n", {{"b", "A"}, {"r", "x"}, {"other", "changed"}}), node);
  EXPECT_EQ(tree.version(kRoot), before) << "nothing of the profile changed";
  EXPECT_EQ(tree.put("n", {{"b", "B"}, {"r", "x"}}), node);
  EXPECT_GT(tree.version(kRoot), before);
  EXPECT_EQ(drawn(tree), "[B[x[n ]]]");
  EXPECT_TRUE(tree.remove("n"));
  EXPECT_FALSE(tree.remove("n"));
  EXPECT_EQ(tree.find("n"), kNone);
  EXPECT_EQ(drawn(tree), "[]");
  EXPECT_EQ(tree.put("m", {}), node) << "ids stay dense";
}

TEST(Tree, a_flat_cluster_has_its_nodes_below_the_root) {
  Tree tree({"flat", {}});
  tree.put("n2", {});
  tree.put("n1", {});
  EXPECT_EQ(drawn(tree), "[n1 n2 ]");
  EXPECT_TRUE(tree.complete(tree.find("n1"), kClusterLevel));
}

// Any history of events ends in the tree that the last labels alone give, with dense ids.
TEST(Tree, depends_on_the_last_labels_alone) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<std::uint64_t>(below)); };
  for (int round = 0; round < 200; ++round) {
    Tree tree(kTwo);
    std::map<std::string, api::Labels> last;
    for (int event = 0; event < 60; ++event) {
      const std::string name = "n" + std::to_string(pick(12));
      if (pick(4) == 0) {
        EXPECT_EQ(tree.remove(name), last.erase(name) == 1);
        continue;
      }
      api::Labels labels;
      if (pick(5) != 0) labels["b"] = std::to_string(pick(3));
      if (pick(5) != 0) labels["r"] = std::to_string(pick(3));
      last[name] = labels;
      tree.put(name, labels);
    }
    Tree fresh(kTwo);
    for (const auto& [name, labels] : last) fresh.put(name, labels);
    ASSERT_EQ(drawn(tree), drawn(fresh));
    ASSERT_EQ(tree.node_count(kRoot), static_cast<int>(last.size()));
    ASSERT_LE(tree.node_limit(), 12);
    ASSERT_LE(tree.domain_limit(), 1 + 2 * 12 + 2) << "ids of domains are used again";
    std::set<NodeId> ids;
    for (const auto& [name, labels] : last) ids.insert(tree.find(name));
    ASSERT_EQ(ids.size(), last.size());
  }
}

}  // namespace
}  // namespace lockstep::placement
