#!/usr/bin/env bash
# Prints the files that describe the kinds of a cluster, one a line: the OpenAPI document of Kubernetes, and the CRDs of
# the Prometheus operator. Both are of the versions that go.mod files pin, and come from the Go module proxy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# shellcheck source=tests/cluster/go_build.sh
source "$here/../cluster/go_build.sh"

generator=$("$here/go_tool.sh" controller-gen)
go=$(find_go)
export GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build

kubernetes=$cache/go/mod/k8s.io/kubernetes@$(version_of k8s.io/kubernetes "$here/../cluster/modules/kubernetes/go.mod")
[ -d "$kubernetes" ] || (cd "$here/../cluster/modules/kubernetes" && "$go" mod download k8s.io/kubernetes)
echo "$kubernetes/api/openapi-spec/swagger.json"

# The module has the Go types alone; their authors generate the CRDs in the same way.
crds=$(dirname "$generator")/crds
exec 9>"$crds.lock"
flock 9
if [ ! -d "$crds" ]; then
  rm -rf "$crds.part"
  (cd "$here/modules/controller-gen" && PATH=$(dirname "$go"):$PATH "$generator" crd "output:crd:dir=$crds.part" \
    paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1)
  mv "$crds.part" "$crds"
fi
ls "$crds"/*.yaml
