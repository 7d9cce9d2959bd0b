#!/usr/bin/env bash
# Builds the programs of the kind tests once, from the Go module proxy, into the cache, and prints their folder.
#
#   tests/kind/binaries.sh [NAME...]     all of them, or only the named ones
#
# The go.mod and go.sum of each folder in modules/ pin the versions; kubeadm comes from the test cluster's modules.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kind/layout.sh
source "$here/layout.sh"
# shellcheck source=tests/cluster/go_build.sh
source "$here/../cluster/go_build.sh"

# name  module folder  package
programs=(
  "kubeadm               ../../cluster/modules/kubernetes  k8s.io/kubernetes/cmd/kubeadm"
  "kind                  kind           sigs.k8s.io/kind"
  "nvidia-device-plugin  device_plugin  github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin"
  "actionlint            actionlint     github.com/rhysd/actionlint/cmd/actionlint"
)

if [ "${1:-}" = "-h" ] || [ "${1:-}" = "--help" ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 0
fi
# The folder's name changes with every pinned version, so an old cache is never mistaken for a new one.
pins=$(cat "$here"/modules/*/go.mod "$here/../cluster/modules/kubernetes/go.mod" "$here/binaries.sh" | sha256sum | cut -c1-12)
bin=$kind_state/bin-$pins
mkdir -p "$bin"
exec 9>"$bin/.lock"
flock -w 3000 9 || { echo "binaries.sh: another build held $bin/.lock for 50 minutes; end it and try again" >&2; exit 1; }

for row in "${programs[@]}"; do
  read -r name module package <<<"$row"
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  [ -x "$bin/$name" ] && continue
  case $name in
    kubeadm)
      flags=$(kubernetes_flags "$(version_of k8s.io/kubernetes "$here/modules/$module/go.mod")")
      build_go_program "$name" "$here/modules/$module" "$package" "$bin/$name" "$flags"
      ;;
    nvidia-device-plugin)
      # It opens libnvidia-ml.so.1 when it runs, so its symbols stay open at link time, as in NVIDIA's own Makefile.
      (
        export CGO_ENABLED=1
        flags="'-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'"
        flags+=" -X github.com/NVIDIA/k8s-device-plugin/internal/info.version=$(version_of github.com/NVIDIA/k8s-device-plugin "$here/modules/$module/go.mod")"
        build_go_program "$name" "$here/modules/$module" "$package" "$bin/$name" "$flags"
      )
      ;;
    *) build_go_program "$name" "$here/modules/$module" "$package" "$bin/$name" ;;
  esac
done
echo "$bin"
