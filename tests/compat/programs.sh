#!/usr/bin/env bash
# Builds lockstep-operator and lockstep-agent of the commit in BASELINE, once for each user, and prints their folder.
# Ends with 3 where the history does not reach back to that commit.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
commit=$(tr -d '[:space:]' <"$root/tests/compat/BASELINE")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/compat/$commit
programs=(lockstep-operator lockstep-agent)
if [[ ! -d $folder/bin ]]; then
  if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
    echo "the commit $commit of tests/compat/BASELINE is not in this clone; fetch it: git fetch --unshallow" >&2
    exit 3
  fi
  mkdir -p "$folder"
  exec 9>"$folder/lock"
  flock 9
  if [[ ! -d $folder/bin ]]; then  # no other process has built it meanwhile
    rm -rf "$folder/source" "$folder/new"
    mkdir "$folder/source" "$folder/new"
    git -C "$root" archive "$commit" | tar -x -C "$folder/source"
    (cd "$folder/source" && scripts/build.sh release build/release "${JOBS:-$(nproc)}" "${programs[@]}") >&2
    for program in "${programs[@]}"; do cp "$folder/source/build/release/bin/$program" "$folder/new"; done
    mv "$folder/new" "$folder/bin"
    rm -rf "$folder/source"
  fi
fi
echo "$folder/bin"
