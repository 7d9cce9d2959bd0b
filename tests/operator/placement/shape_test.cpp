// Which nodes a shape may use: a table, each case names the rule of kube-scheduler that it shows.
#include "operator/placement/shape.h"

#include <gtest/gtest.h>

namespace lockstep::placement {
namespace {

Shape shape_from(const std::string& spec) {
  auto shape = shape_of({{"spec", api::Json::parse(spec)}});
  EXPECT_TRUE(shape) << shape.error().message;
  return shape.value_or({});
}

const api::Labels kLabels{{"gpu", "h100"}, {"zone", "a"}, {"age", "7"}, {"word", "x"}};

bool selected(const std::string& spec) {
  return selects(shape_from(spec), "node-1", kLabels);
}

std::string affinity(const std::string& terms) {
  return R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":)" +
         terms + "}}}}";
}
std::string expression(const std::string& expression) {
  return affinity(R"([{"matchExpressions":[)" + expression + "]}]");
}

TEST(Shape, selects_nodes_as_kube_scheduler_does) {
  struct Case {
    const char* rule;
    std::string spec;
    bool expected;
  };
  const Case cases[] = {
      {"no selector takes every node", "{}", true},
      {"all labels of the node selector are equal", R"({"nodeSelector":{"gpu":"h100","zone":"a"}})", true},
      {"one label of the node selector differs", R"({"nodeSelector":{"gpu":"h100","zone":"b"}})", false},
      {"a label of the node selector is missing", R"({"nodeSelector":{"rack":""}})", false},
      {"In: a listed value", expression(R"({"key":"zone","operator":"In","values":["b","a"]})"), true},
      {"In: another value", expression(R"({"key":"zone","operator":"In","values":["b"]})"), false},
      {"In: no label", expression(R"({"key":"rack","operator":"In","values":["b"]})"), false},
      {"NotIn: a listed value", expression(R"({"key":"zone","operator":"NotIn","values":["a"]})"), false},
      {"NotIn: no label", expression(R"({"key":"rack","operator":"NotIn","values":["a"]})"), true},
      {"Exists", expression(R"({"key":"zone","operator":"Exists"})"), true},
      {"Exists: no label", expression(R"({"key":"rack","operator":"Exists"})"), false},
      {"DoesNotExist", expression(R"({"key":"zone","operator":"DoesNotExist"})"), false},
      {"DoesNotExist: no label", expression(R"({"key":"rack","operator":"DoesNotExist"})"), true},
      {"Gt compares integers", expression(R"({"key":"age","operator":"Gt","values":["6"]})"), true},
      {"Gt is not equal", expression(R"({"key":"age","operator":"Gt","values":["7"]})"), false},
      {"Lt compares integers", expression(R"({"key":"age","operator":"Lt","values":["10"]})"), true},
      {"Gt of no integer holds nowhere", expression(R"({"key":"word","operator":"Gt","values":["6"]})"), false},
      {"expressions of a term all hold",
       expression(R"({"key":"zone","operator":"Exists"},{"key":"rack","operator":"Exists"})"), false},
      {"one term is enough", affinity(R"([{"matchExpressions":[{"key":"rack","operator":"Exists"}]},
                    {"matchExpressions":[{"key":"zone","operator":"Exists"}]}])"),
       true},
      {"a term without expressions holds nowhere", affinity("[{}]"), false},
      {"no term holds nowhere", affinity("[]"), false},
      {"matchFields reads the name",
       affinity(R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["node-1"]}]}])"), true},
      {"matchFields of another name",
       affinity(R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["node-2"]}]}])"), false},
      {"the node selector and the affinity both hold",
       R"({"nodeSelector":{"zone":"b"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
           {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}})",
       false},
      {"preferred affinity excludes no node",
       R"({"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":
           {"matchExpressions":[{"key":"rack","operator":"Exists"}]}}]}}})",
       true},
  };
  for (const Case& one : cases) EXPECT_EQ(selected(one.spec), one.expected) << one.rule;
}

TEST(Shape, tolerates_taints_as_kube_scheduler_does) {
  struct Case {
    const char* rule;
    const char* tolerations;
    bool expected;
  };
  const Case cases[] = {
      {"no toleration", "[]", false},
      {"key, value and effect are equal", R"([{"key":"gpu","value":"yes","effect":"NoSchedule"}])", true},
      {"Equal is the operator where none is given", R"([{"key":"gpu","operator":"Equal","value":"yes"}])", true},
      {"another value", R"([{"key":"gpu","value":"no"}])", false},
      {"another key", R"([{"key":"cpu","operator":"Exists"}])", false},
      {"another effect", R"([{"key":"gpu","operator":"Exists","effect":"NoExecute"}])", false},
      {"no effect is every effect", R"([{"key":"gpu","operator":"Exists"}])", true},
      {"Exists without a key is every taint", R"([{"operator":"Exists"}])", true},
      {"a toleration that ends after a while tolerates the binding",
       R"([{"key":"gpu","operator":"Exists","tolerationSeconds":3}])", true},
      {"an operator that is not known tolerates nothing", R"([{"key":"gpu","operator":"Gt","value":"yes"}])", false},
  };
  for (const Case& one : cases) {
    const Shape shape = shape_from(std::string(R"({"tolerations":)") + one.tolerations + "}");
    EXPECT_EQ(tolerates(shape, {{"gpu", "yes", "NoSchedule"}}), one.expected) << one.rule;
    EXPECT_TRUE(tolerates(shape, {})) << one.rule;
  }
  EXPECT_FALSE(tolerates(shape_from(R"({"tolerations":[{"key":"gpu","operator":"Exists"}]})"),
                         {{"gpu", "yes", "NoSchedule"}, {"other", "", "NoExecute"}}))
      << "every taint has to be tolerated";
}

TEST(Shape, has_the_requests_and_ports_of_the_pod) {
  const Shape shape = shape_from(R"({"overhead":{"cpu":"1"},"containers":[
      {"resources":{"limits":{"nvidia.com/gpu":"8"},"requests":{"cpu":"2"}},"ports":[{"hostPort":1}]}]})");
  EXPECT_EQ(shape.requests, (std::vector<Amount>{{"cpu", 3000}, {"nvidia.com/gpu", 8}, {"pods", 1}}));
  EXPECT_TRUE(shape.host_ports);
  EXPECT_EQ(shape, shape_from(R"({"containers":[{"resources":{"requests":{"cpu":"3","nvidia.com/gpu":"8"}},
                                  "ports":[{"hostPort":9}]}]})"));
}

TEST(Shape, names_the_labels_that_it_reads) {
  const Shape shape = shape_from(
      R"({"nodeSelector":{"zone":"a"},"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
          {"nodeSelectorTerms":[{"matchExpressions":[{"key":"gpu","operator":"Exists"}]}]}}}})");
  EXPECT_EQ(selector_keys(shape), (std::vector<std::string>{"gpu", "zone"}));
  EXPECT_FALSE(reads_name(shape));
  EXPECT_TRUE(reads_name(
      shape_from(affinity(R"([{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}])"))));
}

TEST(Shape, of_an_operator_that_is_not_known_is_refused) {
  const auto shape =
      shape_of({{"spec", api::Json::parse(expression(R"({"key":"zone","operator":"Near","values":["a"]})"))}});
  ASSERT_FALSE(shape);
  EXPECT_EQ(shape.error().message, "nodeAffinity: the operator 'Near' of matchExpressions is not known");
  EXPECT_TRUE(shape_of(api::Json::array()));
  EXPECT_TRUE(shape_of({{"spec", {{"affinity", 3}, {"tolerations", {1, nullptr}}, {"nodeSelector", "x"}}}}));
}

}  // namespace
}  // namespace lockstep::placement
