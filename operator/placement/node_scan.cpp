#include "operator/placement/node_scan.h"

#include <algorithm>

#include "operator/placement/json_walk.h"
#include "operator/placement/pod_scan.h"

namespace lockstep::placement {
namespace {

enum NodeField {
  kName,
  kLabel,
  kUnschedulable,
  kTaints,
  kTaint,
  kTaintKey,
  kTaintValue,
  kTaintEffect,
  kAllocatable,
  kNodeCondition,
  kNodeConditionType,
  kNodeConditionStatus,
};

const JsonPaths& node_paths() {
  static const JsonPaths paths{
      {"metadata|name", kName},
      {"metadata|labels|*", kLabel},
      {"spec|unschedulable", kUnschedulable},
      {"spec|taints", kTaints},
      {"spec|taints|[]", kTaint},
      {"spec|taints|[]|key", kTaintKey},
      {"spec|taints|[]|value", kTaintValue},
      {"spec|taints|[]|effect", kTaintEffect},
      {"status|allocatable|*", kAllocatable},
      {"status|conditions|[]", kNodeCondition},
      {"status|conditions|[]|type", kNodeConditionType},
      {"status|conditions|[]|status", kNodeConditionStatus},
  };
  return paths;
}

class NodeVisitor final : public JsonVisitor {
 public:
  NodeVisitor(const LabelKeys& labels, const SickSigns& signs) : labels_(labels), signs_(signs) {}

  void begin(int id) override {
    if (id == kTaints) taints_.clear();
    if (id == kTaint) {
      if (taints_.size() < kMostTaints) {
        taints_.emplace_back();
      } else {
        problem_ = "the node has more than 256 taints";
      }
    }
    if (id == kNodeCondition) condition_ = status_ = "";
  }

  void value(int id, std::string_view key, std::string_view text) override {
    switch (id) {
      case kName:
        node_.name = text;
        break;
      case kLabel:
        if (labels_.find(key) != labels_.end()) node_.labels[std::string(key)] = text;
        look_for_sign(SignKind::kLabel, key, text);
        break;
      case kUnschedulable:
        node_.unschedulable = text == "true";
        break;
      case kAllocatable:
        allocatable(key, text);
        break;
      case kNodeConditionType:
        condition_ = text;
        judge_condition();
        break;
      case kNodeConditionStatus:
        status_ = text;
        judge_condition();
        break;
      default:
        if (!taints_.empty()) of_taint(taints_.back(), id, text);
        break;
    }
  }

  Result<NodeRecord> finish() {
    if (node_.name.empty()) return fail(ErrorCode::kInvalid, "the node has no metadata.name");
    if (!problem_.empty()) return fail(ErrorCode::kInvalid, problem_);
    node_.allocatable = in_units(allocatable_);
    for (Taint& taint : taints_) {
      look_for_sign(SignKind::kTaint, taint.key, taint.value);
      node_.out_of_service = node_.out_of_service || taint.key == "node.kubernetes.io/out-of-service";
      if (taint.effect == "NoSchedule" || taint.effect == "NoExecute") node_.taints.push_back(std::move(taint));
    }
    std::sort(node_.taints.begin(), node_.taints.end());
    if (sign_ != SickSigns::kNone) node_.sickness = text_of(signs_.all()[sign_]);
    return std::move(node_);
  }

 private:
  void allocatable(std::string_view name, std::string_view text) {
    const auto amount = api::Quantity::parse(text);
    if (allocatable_.entries().size() >= kMostResources && allocatable_.find(name) == nullptr) {
      problem_ = "the node has more than 64 resources";
    } else {
      allocatable_.set(name, amount && !amount->is_negative() ? *amount : api::Quantity());
    }
  }
  static void of_taint(Taint& taint, int id, std::string_view text) {
    if (id == kTaintKey) taint.key = text;
    if (id == kTaintValue) taint.value = text;
    if (id == kTaintEffect) taint.effect = text;
  }
  // Of one condition, its type and its status come in any order.
  void judge_condition() {
    if (condition_ == "Ready") node_.ready = status_ == "True";
    if (!condition_.empty() && !status_.empty()) look_for_sign(SignKind::kCondition, condition_, status_);
  }
  void look_for_sign(SignKind kind, std::string_view key, std::string_view value) {
    sign_ = std::min(sign_, signs_.find(kind, key, value));
  }

  const LabelKeys& labels_;
  const SickSigns& signs_;
  std::size_t sign_ = SickSigns::kNone;
  NodeRecord node_;
  ResourceList allocatable_;
  std::vector<Taint> taints_;
  std::string condition_, status_, problem_;
};

}  // namespace

Result<NodeRecord> scan_node(std::string_view text, const LabelKeys& labels, const SickSigns& signs) {
  NodeVisitor visitor(labels, signs);
  if (!walk_json(text, node_paths(), visitor)) return fail(ErrorCode::kInvalid, "the node is not JSON");
  return visitor.finish();
}

Result<std::string> scan_name(std::string_view text) {
  struct NameVisitor final : JsonVisitor {
    std::string name;
    void begin(int) override {}
    void value(int, std::string_view, std::string_view characters) override { name = characters; }
  };
  static const JsonPaths paths{{"metadata|name", 0}};
  NameVisitor visitor;
  if (!walk_json(text, paths, visitor)) return fail(ErrorCode::kInvalid, "the object is not JSON");
  if (visitor.name.empty()) return fail(ErrorCode::kInvalid, "the object has no metadata.name");
  return visitor.name;
}

}  // namespace lockstep::placement
