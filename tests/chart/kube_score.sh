#!/usr/bin/env bash
# Prints the path of kube-score; builds it from the Go module proxy on the first call. modules/kube-score pins it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# shellcheck source=tests/cluster/go_build.sh
source "$here/../cluster/go_build.sh"

folder=$cache/kube-score-$(cat "$here/modules/kube-score/go.mod" "$here/kube_score.sh" | sha256sum | cut -c1-12)
mkdir -p "$folder"
exec 9>"$folder/.lock"
if ! flock -w 900 9; then
  echo "kube_score.sh: another build held $folder/.lock for 15 minutes; end it and try again" >&2
  exit 1
fi
[ -x "$folder/kube-score" ] ||
  build_go_program kube-score "$here/modules/kube-score" github.com/zegl/kube-score/cmd/kube-score "$folder/kube-score"
echo "$folder/kube-score"
