#!/usr/bin/env bash
# Builds the programs of the test cluster once, from the Go module proxy, into the cache, and prints the folder that
# holds them.
#
#   tests/cluster/binaries.sh [NAME...]     all of them, or only the named ones
#
# The go.mod and go.sum of each folder in modules/ pin the versions. A main.go there chooses what a program has. If
# KUBEBUILDER_ASSETS names a folder that holds a program, that one is used instead. Progress goes to standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# shellcheck source=tests/cluster/go_build.sh
source "$here/go_build.sh"

# name  module folder  package
programs=(
  "etcd                     etcd        go.etcd.io/etcd/server/v3"
  "kube-apiserver           kubernetes  k8s.io/kubernetes/cmd/kube-apiserver"
  "kube-controller-manager  kubernetes  k8s.io/kubernetes/cmd/kube-controller-manager"
  "kube-scheduler           kubernetes  k8s.io/kubernetes/cmd/kube-scheduler"
  "kubelet                  kubernetes  k8s.io/kubernetes/cmd/kubelet"
  "kube-proxy               kubernetes  k8s.io/kubernetes/cmd/kube-proxy"
  "kubectl                  kubernetes  k8s.io/kubernetes/cmd/kubectl"
  "coredns                  coredns     ."
  "helm                     helm        helm.sh/helm/v3/cmd/helm"
  "kwok                     kwok        sigs.k8s.io/kwok/cmd/kwok"
)

kubernetes_version=$(version_of k8s.io/kubernetes "$here/modules/kubernetes/go.mod")
# The folder's name changes with every pinned version, so an old cache is never mistaken for a new one.
pins=$(cat "$here"/modules/*/go.mod "$here"/modules/*/*.go | sha256sum | cut -c1-12)
bin=$cache/cluster/$kubernetes_version-$pins/bin

if [ "${1:-}" = "-h" ] || [ "${1:-}" = "--help" ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit 0
fi
wanted=("$@")
mkdir -p "$bin"

is_wanted() {
  [ ${#wanted[@]} -eq 0 ] && return 0
  local name
  for name in "${wanted[@]}"; do [ "$name" = "$1" ] && return 0; done
  return 1
}

# If all programs exist, it takes no lock: a cluster starts while other programs are built.
missing=0
for row in "${programs[@]}"; do
  read -r name _ <<<"$row"
  if is_wanted "$name" && [ ! -x "$bin/$name" ]; then missing=1; fi
done
if [ "$missing" = 0 ]; then
  echo "$bin"
  exit 0
fi

# Two set-ups at once would build everything twice; the second waits for the first.
exec 9>"$bin/.lock"
flock -w 5000 9 || { echo "binaries.sh: another build held $bin/.lock for over 80 minutes; end it and try again" >&2; exit 1; }

for row in "${programs[@]}"; do
  read -r name module package <<<"$row"
  is_wanted "$name" || continue
  [ -x "$bin/$name" ] && continue
  if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$name" ]; then
    # A copy: nodes see this folder alone, and a link would lead out of it.
    cp "$KUBEBUILDER_ASSETS/$name" "$bin/$name.part"
    mv "$bin/$name.part" "$bin/$name"
    continue
  fi
  flags=
  if [ "$module" = kubernetes ]; then flags=$(kubernetes_flags "$kubernetes_version"); fi
  build_go_program "$name" "$here/modules/$module" "$package" "$bin/$name" "$flags"
done
echo "$bin"
