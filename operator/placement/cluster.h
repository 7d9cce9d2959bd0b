// The cluster as placement sees it: the topology tree, what each node has, and what the pods of every scheduler take.
// Filled from the watches of nodes and pods; asked how many pods of a shape still fit on each node.
//
// A pod that is not terminal takes from the node that it is bound to, or, of a job, that its annotation names. Gated,
// pending and terminating pods are no exception. A reservation is a pod that the watch has not shown yet.
//
// Gated pods and reservations may take more than a node has: their places can still be given up. A pod that can be
// bound cannot. open() keeps those within what the node has, also while the watch has not shown what was opened.
//
// Pure and not thread-safe: its owner has the lock. An event costs O(resources of the pod + log nodes), a note per
// changed node, and nothing per shape.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "operator/base/result.h"
#include "operator/placement/fit_tables.h"
#include "operator/placement/node_record.h"
#include "operator/placement/node_scan.h"
#include "operator/placement/pod_record.h"
#include "operator/placement/pod_scan.h"
#include "operator/placement/request_table.h"
#include "operator/placement/shape.h"
#include "operator/placement/tree.h"

namespace lockstep::placement {

// More pods of one shape on one node count as this many.
inline constexpr std::int32_t kMostFit = 16'384;

// One resource of a node. `used` may be above `allocatable`, and stays at kMostUnits.
struct NodeAmount {
  std::string name;
  std::int64_t allocatable = 0, used = 0;

  bool operator==(const NodeAmount&) const = default;
};

class Cluster {
 public:
  // `profile` has passed check().
  explicit Cluster(Profile profile);

  const Tree& tree() const { return tree_; }

  // Nodes. The labels that scan_node() has to keep: the profile's, usual ones, and those of the shapes' selectors.
  const LabelKeys& label_keys() const { return label_keys_; }
  // A list of nodes: what end_nodes() has not seen since begin_nodes() is gone. `whole` is false when some item could
  // not be read; then nothing is gone. A list that never ends has no effect beyond the nodes that it put.
  void begin_nodes();
  void end_nodes(bool whole = true);
  // A node of a list or a watch. Pods may be known before their node.
  void put_node(const NodeRecord& node);
  void remove_node(const std::string& name);
  // A shape selects by labels that the nodes were not scanned for: list the nodes again.
  bool wants_node_list() const;

  // Pods, in the same way. A terminal pod is removed. A pod that appears ends its reservation.
  void begin_pods();
  void end_pods(bool whole = true);
  void put_pod(const ScannedPod& pod);
  void remove_pod(const ScannedPod& pod);
  // The watch of pods has passed this resourceVersion: reservations whose writes it includes end.
  void observe(const std::string& resource_version);

  // The id of a shape, with one more holder. Equal shapes have one id, which lasts until its last release().
  ShapeId acquire(const Shape& shape);
  void release(ShapeId shape);
  const Shape& shape(ShapeId shape) const { return shapes_[index(shape)].shape; }

  // How many pods of the shape still fit, by NodeId; 0 where a node is not ready, cordoned, out of service, or does not
  // take such pods. Valid until the next call of a member that is not const. kUnavailable, with the reason, before the
  // first lists and while wants_node_list() concerns this shape.
  Result<std::span<const std::int32_t>> fit(ShapeId shape);
  // The same if no pod were there.
  Result<std::vector<std::int32_t>> fit_empty(ShapeId shape) const;
  // Both, and the youth of the pods. Young is a pod that has not begun, or began less than kYoungSeconds before the
  // time that pass_time() gave last. No pod is before the first pass_time().
  Result<Rooms> rooms(ShapeId shape);
  // Sets the time, in seconds since 1970. A pod that ages costs O(log nodes + pods of its node), once in its life. A
  // time before the last one costs O(nodes + pods).
  void pass_time(std::int64_t now);
  // Whether pods of the shape that count on the node already can be bound there. The node takes such pods, and all its
  // pods together take no more than it has of what the shape asks for.
  bool holds(NodeId node, ShapeId shape) const;

  // How many pods of the shape would fit on the node if the pods that `gone` picks were not there. Needs no lists.
  std::int32_t fit_without(ShapeId shape, NodeId node, const std::function<bool(const PodRecord&)>& gone) const;

  // Counts a pod of the shape on the node until one of three events. The watch shows a pod of that key on the node,
  // bound anywhere, terminal or gone; it passes the version that written() gave; unreserve() is called. `pod` is
  // "namespace/name". A second call moves the reservation and forgets its version. `node` is in use.
  void reserve(const std::string& pod, NodeId node, ShapeId shape);
  // The write that shows the pod on its node had this resourceVersion.
  void written(const std::string& pod, const std::string& resource_version);
  // No effect when there is none. That of a pod under open() lasts until the opening ends.
  void unreserve(const std::string& pod);

  // The pod is about to be bound: its gate is removed, or it is created without one. False, without an effect: the node
  // takes no such pod, or has no room beside the pods that can be bound already. From a true on, the pod counts as one
  // of those. That ends when opened() says that the write failed, or the watch passes the version that it was given.
  // `uid`: of the pod; zero: it is created now. A second call begins again.
  bool open(const std::string& pod, const Uid& uid, NodeId node, ShapeId shape);
  // How the write ended: the pod's uid, and the resourceVersion of the write; "": it failed, and nothing is open.
  // Empty: its answer was lost. Then the pod counts as open until the watch shows that it is or that it is gone, until
  // unreserve(), or until a second open().
  void opened(const std::string& pod, const Uid& uid, const std::optional<std::string>& resource_version);
  // Somebody else's watch shows that the pod, in this resourceVersion, can be bound to the node or is. Another process
  // may have opened it. Until the watch passes that version, the pod counts as one that open() let through, whether the
  // node has room for it or not.
  void shown_open(const std::string& pod, const Uid& uid, NodeId node, ShapeId shape,
                  const std::string& resource_version);

  // Grows whenever the tree changes, or what nodes have, who may use them, what counts on them or what of it is young.
  // While it stays, a decision stays too. A status of a pod changes nothing, unless it says that the pod began long
  // ago. Nor does a heartbeat of a node.
  std::uint64_t changes() const { return tree_.version(kRoot) + tables_.touches(); }

  // Whether the node takes new pods.
  NodeState state(NodeId node) const { return nodes_[index(node)].state; }
  // The sign that the node is sick, as text; "": none.
  const std::string& sickness(NodeId node) const;
  // What tolerations and selectors look at: the taints, and those of the labels that some shape selects by.
  const std::vector<Taint>& taints(NodeId node) const { return class_of(node).taints; }
  const api::Labels& labels(NodeId node) const { return class_of(node).labels; }
  // What a node has and its pods take, ordered by name; what only pods name is left out.
  std::vector<NodeAmount> amounts(NodeId node) const;
  // The pods and reservations that count on the node, in no order.
  void each_pod(NodeId node, const std::function<void(const PodRecord&)>& visit) const;
  // How much of the resource a pod of each_pod() takes.
  std::int64_t units(const PodRecord& pod, std::string_view resource) const;
  std::size_t pods() const { return by_uid_.size(); }
  std::size_t reservations() const { return reservations_.size(); }
  std::size_t openings() const { return openings_.size(); }

 private:
  using PodIndex = std::int32_t;

  // What selectors and tolerations look at: few differ, and a shape judges each once.
  struct NodeClass {
    api::Labels labels;
    std::vector<Taint> taints;

    auto operator<=>(const NodeClass&) const = default;
  };
  struct Node {
    RowId allocatable = kNone;
    std::int32_t node_class = kNone;
    PodIndex first_pod = kNone;
    std::int32_t port_pods = 0;        // pods of jobs with host ports
    std::int32_t young_pods = 0;       // how many of its pods are young
    std::int32_t young_port_pods = 0;  // of these, with host ports
    std::int64_t ages_at = 0;          // when the first of them is no longer; 0: none of them has begun
    NodeState state = NodeState::kNotReady;
    std::uint16_t list = 0;       // the last list that held it
    std::vector<__int128> used;   // beside the entries of `allocatable`
    std::vector<__int128> young;  // what its young pods take of it; empty: nothing
  };
  // A node that only pods name.
  struct Absent {
    std::string name;
    PodIndex first_pod = kNone;
  };
  struct KnownShape {
    Shape shape;
    RowId requests = kNone;
    bool reads_name = false;
    int holders = 0;
    mutable std::vector<std::int8_t> admits;  // by class; -1: not judged yet
  };
  // Orders resourceVersions: longer is greater.
  struct Version {
    std::size_t length = 0;
    std::string text;

    auto operator<=>(const Version&) const = default;
  };
  struct Reservation {
    PodIndex pod = kNone;
    Version version;  // of length 0: not written yet
  };
  struct Opening {
    Uid uid;               // zero: not created yet
    std::string node;      // a name: its id may pass to another node
    Version version;       // of length 0: the write is under way
    bool left = false;     // unreserve() was called
    bool doubted = false;  // the answer to the write was lost
  };

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }
  // PodRecord::node of a pod on absent_[i], and back.
  static std::int32_t absent(std::size_t i) { return -2 - static_cast<std::int32_t>(i); }
  static std::size_t absent_index(std::int32_t node) { return static_cast<std::size_t>(-2 - node); }

  std::int32_t place_of(const std::string& node, std::int32_t guess);
  const std::string* name_of(std::int32_t node) const;
  void forget_absent(std::int32_t node);
  PodIndex& first_pod(std::int32_t node);
  PodIndex new_record();
  void drop(PodIndex pod);
  void attach(PodIndex pod);
  void detach(PodIndex pod);
  void count(const PodRecord& pod, int sign);
  bool is_young(const PodRecord& pod) const;
  void count_young(const PodRecord& pod, int sign);
  static void forget_young(Node& node);
  void set_started(PodRecord& pod, std::uint32_t started);
  // Looks at the node's young pods again at that time, or before.
  void age_at(NodeId node, std::int64_t time);
  void judge_ages(NodeId node);
  void count_on(Node& node, const PodRecord& pod, int sign) const;
  // The same into other sums beside the entries of node.allocatable.
  void add(const Node& node, const PodRecord& pod, int sign, std::vector<__int128>& sums,
           std::int32_t& port_pods) const;
  void recount(NodeId node);
  void remove_uid(const Uid& uid);
  // Whether what the watch shows of this pod concerns the reservation of its name. A pod under open() may have had a
  // predecessor of the same name, whose events come late.
  bool is_reserved(const ScannedPod& pod) const;
  void end_reservation(const std::string& pod);
  void mark_opened(PodIndex pod, bool opened);
  // `passed`: the watch has shown its write.
  void end_opening(std::map<std::string, Opening>::iterator opening, bool passed);
  // Ends those whose answer was lost and whose pod is gone from a list.
  void end_openings_of_lost_pods();
  void move_pods(PodIndex first, std::int32_t to);

  std::int32_t acquire_class(const NodeRecord& node);
  void release_class(std::int32_t node_class);
  void use_key(const std::string& key, int holders);

  const NodeClass& class_of(NodeId node) const { return classes_[index(nodes_[index(node)].node_class)]->first; }
  bool admits(const KnownShape& shape, NodeId node) const;
  std::int32_t room(const KnownShape& shape, NodeId id, bool as_empty) const;
  std::int32_t room(const KnownShape& shape, NodeId id, const Node& node, bool as_empty) const;
  Room room_of(const KnownShape& shape, NodeId id) const;
  Status answerable(const KnownShape& shape) const;

  Tree tree_;
  RequestTable rows_;

  std::vector<Node> nodes_;                 // by NodeId
  std::map<NodeId, std::string> sickness_;  // of few
  std::vector<Absent> absent_;
  std::vector<std::int32_t> free_absent_;
  std::unordered_map<std::string, std::int32_t> absent_by_name_;
  std::uint16_t node_list_ = 0, pod_list_ = 0;  // numbers of the newest lists
  bool nodes_listed_ = false, pods_listed_ = false;

  std::vector<PodRecord> records_;
  std::vector<PodIndex> free_records_;
  std::unordered_map<Uid, PodIndex, UidHash> by_uid_;

  std::int64_t now_ = 0;                               // seconds since 1970; 0: not known
  std::set<std::pair<std::int64_t, NodeId>> ages_at_;  // Node::ages_at of those that have one

  std::map<std::string, Reservation> reservations_;
  std::multimap<Version, std::string> by_version_;  // of those that were written
  std::map<std::string, Opening> openings_;
  std::set<std::pair<Version, std::string>> openings_by_version_;  // of those that were written
  Version observed_;

  std::map<NodeClass, std::int32_t> class_ids_;
  std::vector<std::map<NodeClass, std::int32_t>::iterator> classes_;
  std::vector<int> class_nodes_;  // how many nodes are of it
  std::vector<std::int32_t> free_classes_;

  std::map<Shape, ShapeId> shape_ids_;
  std::vector<KnownShape> shapes_;
  std::vector<ShapeId> free_shapes_;
  std::map<std::string, int, std::less<>> key_holders_;  // selector keys of shapes
  LabelKeys label_keys_;
  LabelKeys listing_keys_, listed_keys_;  // selector keys that the list under way and the last whole one kept

  FitTables tables_;
};

}  // namespace lockstep::placement
