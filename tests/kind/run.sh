#!/usr/bin/env bash
# The kind tests: builds the images, starts kind with mock GPUs in a sandbox, runs the tests and removes everything.
#
#   tests/kind/run.sh reason                   why they cannot run here, in one sentence; nothing if they can
#   tests/kind/run.sh prepare                  the programs and the images alone
#   tests/kind/run.sh cuda                     instead: builds and tests the CUDA variant of the trainer's image
#   tests/kind/run.sh [PYTEST ARGUMENTS...]    both; LOCKSTEP_KIND_PREPARED=1: the tests alone
#
# LOCKSTEP_KIND_ENGINE=docker LOCKSTEP_KIND_NODE_IMAGE=kindest/node:...   Docker and a node image of kind's, no sandbox
# LOCKSTEP_KIND_CUDA_IMAGE=FILE   the CUDA image of tests/e2e/programs/cuda_image.sh; otherwise made from build/release
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=tests/kind/layout.sh
source tests/kind/layout.sh
engine=${LOCKSTEP_KIND_ENGINE:-podman}
pytest=("${PYTHON:-/usr/bin/python3}" -m pytest -q -rs -p no:cacheprovider)
tests=("${pytest[@]}" tests/kind/test_gpus.py tests/kind/test_images.py tests/kind/test_jobs.py)

# Prints in one sentence why these tests cannot run here; nothing if they can.
reason() {
  local program said
  if [ "$engine" = docker ]; then
    docker info >/dev/null 2>&1 || echo "docker info fails: is the daemon running?"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "the nodes of kind need root"
    return
  fi
  for program in podman debootstrap netavark aardvark-dns runc unshare setpriv nft ip; do
    if ! command -v "$program" >/dev/null && [ ! -x "/usr/lib/podman/$program" ]; then
      echo "$program is not installed: run make setup-test"
      return
    fi
  done
  if ! said=$(tests/kind/sandbox.sh tests/kind/probe.sh 2>&1); then
    echo "kind's sandbox does not work here: $(tail -n 1 <<<"$said")"
  fi
}

prepare() {
  local begun=$SECONDS images=(gpu lockstep baseline)
  if [ -z "${LOCKSTEP_KIND_NODE_IMAGE:-}" ]; then images=(debian node "${images[@]}"); fi
  if [[ " ${images[*]} " == *" node "* ]]; then
    tests/cluster/binaries.sh >/dev/null
    tests/kind/binaries.sh kubeadm >/dev/null
  fi
  tests/cluster/binaries.sh kubectl helm >/dev/null
  tests/kind/binaries.sh kind nvidia-device-plugin >/dev/null
  printf 'prepare: programs in %d s\n' $((SECONDS - begun))
  if [ "$engine" = docker ]; then
    tests/kind/prepare.sh "${images[@]}"
  else
    # It ends with this script, however this script ends.
    setpriv --pdeathsig KILL -- tests/kind/sandbox.sh --network tests/kind/prepare.sh "${images[@]}"
  fi
}

mkdir -p "$kind_state"
why=$(reason)
if [ "${1:-}" = reason ]; then
  echo "$why"
  exit 0
fi
if [ -n "$why" ]; then
  echo "kind: skipped: $why" >&2
  if [ "${1:-}" = prepare ]; then exit 0; fi
  if [ "${1:-}" = cuda ]; then LOCKSTEP_KIND_SKIP=$why exec "${pytest[@]}" tests/kind/test_cuda_image.py "${@:2}"; fi
  LOCKSTEP_KIND_SKIP=$why exec "${tests[@]}" "$@"
fi
if [ "${1:-}" = prepare ]; then
  prepare
  exit 0
fi
if [ "${1:-}" = cuda ]; then
  shift
  scripts/build.sh release "${LOCKSTEP_BUILD:-build/release}" "$(nproc)" cuda_plans >&2
  setpriv --pdeathsig KILL -- tests/kind/sandbox.sh --network tests/kind/prepare.sh cuda
  LOCKSTEP_KIND_INSIDE=1 exec tests/kind/sandbox.sh "${pytest[@]}" tests/kind/test_cuda_image.py "$@"
fi
if [ "${LOCKSTEP_KIND_PREPARED:-}" != 1 ]; then prepare; fi
export LOCKSTEP_KIND_INSIDE=1
if [ "$engine" = docker ]; then
  export LOCKSTEP_KIND_ENGINE=docker
  exec "${tests[@]}" "$@"
fi
exec tests/kind/sandbox.sh "${tests[@]}" "$@"
