#!/usr/bin/env bash
# Builds lockstep-agent of the commit in BASELINE, once for each user, and prints its path.
# Ends with 3 where the history does not reach back to that commit.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
commit=$(tr -d '[:space:]' <"$root/tests/compat/BASELINE")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/compat/$commit
agent=$folder/lockstep-agent
if [[ ! -x $agent ]]; then
  if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "the commit $commit of tests/compat/BASELINE is not in this clone; fetch it: git fetch --unshallow" >&2
    exit 3
  fi
  mkdir -p "$folder"
  exec 9>"$folder/lock"
  flock 9
  if [[ ! -x $agent ]]; then  # nobody else has built it meanwhile
    rm -rf "$folder/source"
    mkdir "$folder/source"
    git -C "$root" archive "$commit" | tar -x -C "$folder/source"
    (cd "$folder/source" && scripts/build.sh release build/release "${JOBS:-$(nproc)}" lockstep-agent) >&2
    cp "$folder/source/build/release/bin/lockstep-agent" "$agent.new"
    mv "$agent.new" "$agent"
    rm -rf "$folder/source"
  fi
fi
echo "$agent"
