#!/usr/bin/env bash
# Makes the images of the operator and the trainer as archives, from binaries that are built already, without a daemon.
# The archives are operator.tar and trainer.tar, which `docker load`, `ctr images import` and tests/cluster/cluster load
# take.
#
#   containers/build-images.sh BUILD_FOLDER OUT_FOLDER [TAG [IMAGE]]   TAG: default dev; IMAGE: operator or trainer
#
# IMAGE trainer-cuda: trainer-cuda.tar, the CUDA variant, from a build with LOCKSTEP_CUDA. LOCKSTEP_CUDA_LIBRARIES is a
# folder with NVIDIA's libraries, by default that of `scripts/cuda-toolkit.sh --runtime`.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,9s/^# \{0,1\}//p' "$0"
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

# make_image NAME TAG ARGUMENTS...: the collected root of $work/NAME as an image, in NAME.tar
make_image() {
  local name=$1 label=docker.io/lockstep/${1%-cuda}:$2
  shift 2
  "$here/../tests/cluster/image" --name "$label" --tree "$work/$name" --user 65532:65532 "$@" --out "$out/$name.tar"
  printf '%-40s %6s MiB\n' "$label" "$(du -m --apparent-size "$out/$name.tar" | cut -f1)"
}

# make_trainer NAME TAG ARGUMENTS...: with what is in $work/NAME already
make_trainer() {
  local name=$1 tag=$2
  shift 2
  "$here/collect.sh" "$work/$name" "$build/bin/lockstep-trainer:/usr/local/bin/lockstep-trainer"
  if [ -d "$licences" ]; then
    mkdir -p "$work/$name/usr/share"
    cp -a "$licences" "$work/$name/usr/share/"
  fi
  make_image "$name" "$tag" --entrypoint lockstep-trainer --env PATH=/usr/local/bin:/usr/bin:/bin --dir /tmp:1777 "$@"
}

if [ -z "$only" ] || [ "$only" = operator ]; then
  "$here/collect.sh" "$work/operator" "$build/bin/lockstep-operator:/lockstep-operator" \
    "$build/bin/lockstep-agent:/lockstep-agent"
  if ldd "$build/bin/lockstep-agent" >/dev/null 2>&1; then
    echo "build-images.sh: lockstep-agent is not static, so it would not start in the user's images" >&2
    exit 1
  fi
  make_image operator "$tag" --entrypoint /lockstep-operator
fi

if [ -z "$only" ] || [ "$only" = trainer ]; then
  make_trainer trainer "$tag"
fi

if [ "$only" = trainer-cuda ]; then
  if grep -q 'built without CUDA kernels' "$build/bin/lockstep-trainer"; then
    echo "build-images.sh: $build/bin/lockstep-trainer has no CUDA kernels; build it with the preset cuda" >&2
    exit 1
  fi
  "$here/add-cuda.sh" "$work/trainer-cuda" "${LOCKSTEP_CUDA_LIBRARIES:-$("$here/../scripts/cuda-toolkit.sh" --runtime)}"
  # Where nodes mount a driver that no tool of theirs puts into the image's cache of libraries.
  make_trainer trainer-cuda "$tag-cuda" --env LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/lib64 \
    --env NVIDIA_DRIVER_CAPABILITIES=compute,utility
fi
