#!/usr/bin/env bash
# Makes the images of the operator and the trainer as archives, from binaries that are built already, without a daemon:
# operator.tar and trainer.tar, which `docker load`, `ctr images import` and tests/cluster/cluster load take.
#
#   containers/build-images.sh BUILD_FOLDER OUT_FOLDER [TAG [IMAGE]]   TAG: default dev; IMAGE: operator or trainer
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
fi
build=$(readlink -f "$1")
mkdir -p "$2"
out=$(readlink -f "$2")
tag=${3:-dev}
only=${4:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
licences=/usr/share/common-licenses
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# make NAME ARGUMENTS...: the collected root of $work/NAME as an image
make_image() {
  local name=$1
  shift
  "$here/../tests/cluster/image" --name "docker.io/lockstep/$name:$tag" --tree "$work/$name" --user 65532:65532 "$@" --out "$out/$name.tar"
  printf '%-40s %6s MiB\n' "docker.io/lockstep/$name:$tag" "$(du -m --apparent-size "$out/$name.tar" | cut -f1)"
}

if [ "$only" != trainer ]; then
  "$here/collect.sh" "$work/operator" "$build/bin/lockstep-operator:/lockstep-operator" \
    "$build/bin/lockstep-agent:/lockstep-agent"
  if ldd "$build/bin/lockstep-agent" >/dev/null 2>&1; then
    echo "build-images.sh: lockstep-agent is not static, so it would not start in the user's images" >&2
    exit 1
  fi
  make_image operator --entrypoint /lockstep-operator
fi

if [ "$only" != operator ]; then
  "$here/collect.sh" "$work/trainer" "$build/bin/lockstep-trainer:/usr/local/bin/lockstep-trainer"
  if [ -d "$licences" ]; then
    mkdir -p "$work/trainer/usr/share"
    cp -a "$licences" "$work/trainer/usr/share/"
  fi
  make_image trainer --entrypoint lockstep-trainer --env PATH=/usr/local/bin:/usr/bin:/bin --dir /tmp:1777
fi
