#!/usr/bin/env bash
# Builds the programs of the test cluster once, from the Go module proxy, into the cache, and prints the folder that holds them.
#
#   tests/cluster/binaries.sh [NAME...]     all of them, or only the named ones
#
# Versions are pinned by the go.mod and go.sum of each folder in modules/. Where KUBEBUILDER_ASSETS names a folder
# that holds a program already, that one is taken instead of building it. Progress goes to standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
go_toolchain=go1.26.8

# name  module folder  package
programs=(
  "etcd                     etcd        go.etcd.io/etcd/server/v3"
  "kube-apiserver           kubernetes  k8s.io/kubernetes/cmd/kube-apiserver"
  "kube-controller-manager  kubernetes  k8s.io/kubernetes/cmd/kube-controller-manager"
  "kube-scheduler           kubernetes  k8s.io/kubernetes/cmd/kube-scheduler"
  "kubelet                  kubernetes  k8s.io/kubernetes/cmd/kubelet"
  "kube-proxy               kubernetes  k8s.io/kubernetes/cmd/kube-proxy"
  "kubectl                  kubernetes  k8s.io/kubernetes/cmd/kubectl"
  "coredns                  coredns     github.com/coredns/coredns"
  "helm                     helm        helm.sh/helm/v3/cmd/helm"
  "kwok                     kwok        sigs.k8s.io/kwok/cmd/kwok"
)

version_of() { awk -v m="$1" '$1 == "require" && $2 == m {print $3; exit} $1 == m && $2 ~ /^v/ {print $2; exit}' "$2"; }
kubernetes_version=$(version_of k8s.io/kubernetes "$here/modules/kubernetes/go.mod")
# The folder's name changes with every pinned version, so an old cache is never mistaken for a new one.
pins=$(cat "$here"/modules/*/go.mod | sha256sum | cut -c1-12)
bin=$cache/cluster/$kubernetes_version-$pins/bin

if [ "${1:-}" = "-h" ] || [ "${1:-}" = "--help" ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
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

# With everything there, nothing is locked: a cluster comes up while others are built.
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

find_go() {
  # A Go that is new enough, the pinned toolchain from the module proxy otherwise (Debian 12's own Go fetches it).
  local found version
  found=$(command -v go || true)
  [ -n "$found" ] || { [ -x /usr/local/go/bin/go ] && found=/usr/local/go/bin/go; } || true
  [ -n "$found" ] || { echo "binaries.sh: no 'go' on this machine; run 'make setup', or: apt-get install golang-go" >&2; exit 1; }
  version=$(GOTOOLCHAIN=local "$found" env GOVERSION)
  if [ "$(printf '%s\n%s\n' "$go_toolchain" "$version" | sort -V | head -n 1)" = "$go_toolchain" ]; then
    echo "$found"
    return
  fi
  local root=$cache/toolchain/$go_toolchain
  if [ ! -x "$root/bin/go" ]; then
    echo "  go        $version is older than $go_toolchain: fetching that toolchain" >&2
    local work dir
    work=$(mktemp -d)
    printf 'module fetch\n\ngo 1.19\n' >"$work/go.mod"
    dir=$(cd "$work" && GOFLAGS=-mod=mod "$found" mod download -json "golang.org/toolchain@v0.0.1-$go_toolchain.linux-amd64" |
      sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p')
    [ -d "$dir" ] || { echo "binaries.sh: $go_toolchain could not be fetched from the Go module proxy; is the network there?" >&2; exit 1; }
    mkdir -p "$(dirname "$root")"
    # The module cache is read-only and its files are not executable: copy the toolchain out first.
    cp -r "$dir" "$root.part"
    chmod -R u+w "$root.part"
    chmod -R +x "$root.part/bin" "$root.part/pkg/tool"
    mv "$root.part" "$root"
    rm -rf "$work"
  fi
  echo "$root/bin/go"
}

go_program=
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
  if [ -z "$go_program" ]; then
    go_program=$(find_go)
    export GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local CGO_ENABLED=0
    export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build
  fi
  started=$SECONDS
  printf '  %-25s building\n' "$name" >&2
  flags="-s -w"
  if [ "$module" = kubernetes ]; then
    minor=$(cut -d. -f2 <<<"$kubernetes_version")
    for unit in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
      flags+=" -X $unit.gitVersion=$kubernetes_version -X $unit.gitMajor=1 -X $unit.gitMinor=$minor"
      flags+=" -X $unit.gitTreeState=clean -X $unit.buildDate=1970-01-01T00:00:00Z"
    done
  fi
  (cd "$here/modules/$module" && "$go_program" build -trimpath -tags selinux,notest,grpcnotrace -ldflags "$flags" -o "$bin/$name.part" "$package")
  mv "$bin/$name.part" "$bin/$name"
  printf '  %-25s built in %d s\n' "$name" $((SECONDS - started)) >&2
done
echo "$bin"
