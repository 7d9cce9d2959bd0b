// A cluster of nodes with GPUs for tests of the placer, and the watches that fill it. A shape is a number of GPUs.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "operator/placement/cluster_view.h"

namespace lockstep::placement {

class SmallCluster {
 public:
  SmallCluster() { restart(); }

  // The process is new: reservations are gone, the watches list everything again; `late`: the pods as the last
  // deliver() showed them. References to view() end.
  void restart(bool late = false) {
    if (!late) show();
    site_ = std::make_unique<Site>();
    for (const int gpus : shapes_) acquire(gpus);
    site_->cluster.begin_nodes();
    for (const auto& [name, node] : nodes_) site_->cluster.put_node(node);
    site_->cluster.end_nodes();
    site_->cluster.begin_pods();
    for (const auto& [name, pod] : shown_) site_->cluster.put_pod(pod);
    site_->cluster.end_pods();
    site_->cluster.observe(std::to_string(shown_version_));
  }
  ClusterView& view() { return site_->view; }
  const Tree& tree() const { return site_->cluster.tree(); }
  std::size_t reservations() const { return site_->cluster.reservations(); }
  std::size_t openings() const { return site_->cluster.openings(); }
  // How the write of an opening ended; "": it failed; empty: its answer was lost.
  void opened(const std::string& pod, const std::optional<std::string>& version, const std::string& uid = "") {
    site_->cluster.opened(pod, Uid::of(uid.empty() ? pod : uid), version);
  }

  ShapeId shape(int gpus) {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i] == gpus) return ids_[i];
    }
    shapes_.push_back(gpus);
    ids_.push_back(acquire(gpus));
    return ids_.back();
  }
  int gpus(ShapeId shape) const { return static_cast<int>(site_->cluster.shape(shape).requests.front().units); }

  // Of each block b0, b1, ... so many racks b0r0, ..., of so many nodes b0r0n0, ...
  void fill(int blocks, int racks, int nodes, int gpus) {
    for (int b = 0; b < blocks; ++b) {
      for (int r = 0; r < racks; ++r) {
        for (int n = 0; n < nodes; ++n) {
          const std::string block = "b" + std::to_string(b), rack = block + "r" + std::to_string(r);
          add(rack + "n" + std::to_string(n), block, rack, gpus);
        }
      }
    }
  }
  void remove(const std::string& name) {
    nodes_.erase(name);
    site_->cluster.remove_node(name);
  }
  void cordon(const std::string& name, bool cordoned = true) {
    NodeRecord node = nodes_.at(name);
    node.unschedulable = cordoned;
    put(node);
  }
  // Moves the node to another rack; "": it loses the label.
  void relabel(const std::string& name, const std::string& rack) {
    NodeRecord node = nodes_.at(name);
    node.labels.erase("r");
    if (!rack.empty()) node.labels["r"] = rack;
    put(node);
  }
  // Adds a node; it may have been removed.
  void add(const std::string& name, const std::string& block, const std::string& rack, int gpus) {
    NodeRecord node;
    node.name = name;
    node.labels = {{"b", block}, {"r", rack}};
    node.allocatable = {{"gpu", gpus}, {"pods", 110}};
    node.ready = true;
    put(node);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) names.push_back(name);
    return names;
  }

  // Writes a pod of a job, with the node of its annotation or its own; returns its resourceVersion. `pod` is
  // "namespace/name", `flags` are PodFlags, and without `uid` a name has one uid. The watch shows it at the next
  // deliver().
  std::string write(const std::string& pod, const std::string& node, int gpus, std::uint16_t flags = kGated,
                    const std::string& uid = "") {
    ScannedPod scanned;
    scanned.name_space = pod.substr(0, pod.find('/'));
    scanned.name = pod.substr(pod.find('/') + 1);
    scanned.uid = Uid::of(uid.empty() ? pod : uid);
    scanned.job = Uid::of("job");
    scanned.node = node;
    scanned.flags = flags;
    scanned.requests = {{"gpu", gpus}, {"pods", 1}};
    pods_[pod] = scanned;
    under_way_.emplace_back(scanned, true);
    return std::to_string(++version_);
  }
  void erase(const std::string& pod) {
    const auto found = pods_.find(pod);
    if (found == pods_.end()) return;
    under_way_.emplace_back(found->second, false);
    pods_.erase(found);
    ++version_;
  }
  // The watch has come to the end.
  void deliver() {
    for (const auto& [pod, there] : under_way_) {
      if (there) site_->cluster.put_pod(pod);
      if (!there) site_->cluster.remove_pod(pod);
    }
    show();
    site_->cluster.observe(std::to_string(version_));
  }

 private:
  struct Site {
    Cluster cluster{{.name = "test", .levels = {{"block", "b"}, {"rack", "r"}}}};
    ClusterView view{cluster};
  };

  void show() {
    under_way_.clear();
    shown_ = pods_;
    shown_version_ = version_;
  }
  ShapeId acquire(int gpus) {
    Shape shape;
    shape.requests = {{"gpu", gpus}, {"pods", 1}};
    return site_->cluster.acquire(shape);
  }
  void put(const NodeRecord& node) {
    nodes_[node.name] = node;
    site_->cluster.put_node(node);
  }

  std::unique_ptr<Site> site_;
  std::vector<int> shapes_;   // in the order in which they were acquired
  std::vector<ShapeId> ids_;  // of shapes_
  std::map<std::string, NodeRecord> nodes_;
  std::vector<std::pair<ScannedPod, bool>> under_way_;  // events of the watch; false: deleted
  int version_ = 100, shown_version_ = 100;
  std::map<std::string, ScannedPod> pods_, shown_;  // by "namespace/name"; shown_: as of the last deliver()
};

}  // namespace lockstep::placement
