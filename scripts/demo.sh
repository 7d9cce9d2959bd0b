#!/usr/bin/env bash
# make demo: a small GPT-style transformer learns licence texts on 4 workers of this machine; one of them is killed.
#
#   scripts/demo.sh BUILD_FOLDER      DATA=my.txt make demo     trains on your own text instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release}
data=${DATA:-/usr/share/common-licenses}
if [ ! -e "$data" ]; then
  echo "demo: there is no $data on this machine; name a text file of at least 100 kB: DATA=my.txt make demo" >&2
  exit 1
fi
exec "$build/bin/lockstep" run examples/language-model.yaml --data "$data" --kill-worker 2@150
