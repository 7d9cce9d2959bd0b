#!/usr/bin/env bash
# Prints the path of a program; builds it from the Go module proxy on the first call. modules/NAME pins it.
#
#   tests/chart/go_tool.sh NAME      controller-gen, kube-score or kubeconform
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
# shellcheck source=tests/cluster/go_build.sh
source "$here/../cluster/go_build.sh"

name=${1:-}
module=$here/modules/$name
if [ -z "$name" ] || [ ! -f "$module/go.mod" ]; then
  echo "go_tool.sh: no program '$name'; choose one of: $(cd "$here/modules" && echo *)" >&2
  exit 2
fi
folder=$cache/$name-$(cat "$module/go.mod" "$here/go_tool.sh" | sha256sum | cut -c1-12)
mkdir -p "$folder"
exec 9>"$folder/.lock"
if ! flock -w 900 9; then
  echo "go_tool.sh: another build held $folder/.lock for 15 minutes; end it and try again" >&2
  exit 1
fi
[ -x "$folder/$name" ] ||
  build_go_program "$name" "$module" "$(sed -n 's/^tool //p' "$module/go.mod")" "$folder/$name"
echo "$folder/$name"
