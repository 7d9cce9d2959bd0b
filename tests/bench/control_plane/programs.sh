#!/usr/bin/env bash
# Builds the programs that the bench of the control plane runs beside the operator, once, into the cache, and prints the
# folder that holds it:
#
#   jobset                JobSet's controller, the version pinned by jobset/go.mod and go.sum, from the Go module proxy (some minutes)
#   probe                 the raw client and observer, probe/main.go
#   jobset_jobsets.yaml   JobSet's CRD, of the same module
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# shellcheck source=tests/cluster/go_build.sh
source "$here/../../cluster/go_build.sh"

pins=$(cat "$here"/jobset/go.mod "$here"/jobset/go.sum "$here"/probe/go.mod "$here"/probe/main.go | sha256sum | cut -c1-12)
bin=$cache/bench/control_plane-$pins
if [ -e "$bin/jobset_jobsets.yaml" ]; then
  echo "$bin"
  exit 0
fi
mkdir -p "$bin"
exec 9>"$bin/.lock"
flock -w 3000 9 || { echo "programs.sh: another build held $bin/.lock for 50 minutes; end it and try again" >&2; exit 1; }
build_go_program probe "$here/probe" . "$bin/probe"
build_go_program jobset "$here/jobset" sigs.k8s.io/jobset "$bin/jobset"
module=$(cd "$here/jobset" && "$go_program" list -m -f '{{.Dir}}' sigs.k8s.io/jobset)
# Last, and whole: this file says that everything is there.
cp "$module/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" "$bin/.crd"
mv "$bin/.crd" "$bin/jobset_jobsets.yaml"
echo "$bin"
