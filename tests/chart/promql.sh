#!/usr/bin/env bash
# Prints the folder of a PromQL parser for Python (a wheel from PyPI); installs it there on the first call.
set -euo pipefail

version=0.12.0
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/promql-parser-$version
python=/usr/bin/python3
stamp="$($python --version) $version"
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/complete" 2>/dev/null)" != "$stamp" ]; then
  rm -rf "$folder"
  # An environment of its own has pip, also where Debian's Python comes without.
  $python -m venv "$folder/venv" >&2
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$folder" \
    "promql-parser==$version" >&2
  rm -rf "$folder/venv"
  echo "$stamp" >"$folder/complete"
fi
echo "$folder"
