#!/usr/bin/env bash
# Installs pinned packages of NVIDIA's into the cache and prints their folder. Needs no GPU, no driver and no root.
#
#   scripts/cuda-toolkit.sh           the toolkit that compiles the kernels, of cuda-toolkit.txt (310 MB)
#   scripts/cuda-toolkit.sh --test    the same where LOCKSTEP_CUDA=AUTO does not look; that toolkit, if it is there
#   scripts/cuda-toolkit.sh --cudnn   cuDNN and the cuBLASLt that it loads, of cudnn.txt (1.4 GB)
#   scripts/cuda-toolkit.sh --runtime what a trainer with a GPU loads, of cuda-runtime.txt, with licences (2.1 GB)
#   scripts/cuda-toolkit.sh --sanitizer compute-sanitizer, which runs on a GPU alone, of cuda-sanitizer.txt (52 MB)
#
# --where behind each only prints where that is, or would be.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
version_of() { sed -n "s/^$2==\([0-9.]*\).*/\1/p" "$here/$1"; }

pins=cuda-toolkit.txt root=$cache/cuda-$(version_of cuda-toolkit.txt nvidia-cuda-nvcc) proof=bin/nvcc download='120 MB'
if [ "${1:-}" = --test ]; then
  shift
  [ -e "$root/$proof" ] || root=$cache/test/${root##*/}
elif [ "${1:-}" = --cudnn ]; then
  shift
  pins=cudnn.txt root=$cache/cudnn-$(version_of cudnn.txt nvidia-cudnn-cu13) proof=lib/libcudnn.so.9 download='920 MB'
elif [ "${1:-}" = --runtime ]; then
  shift
  pins=cuda-runtime.txt proof=lib/libnccl.so.2 download='1.1 GB'
  root=$cache/cuda-runtime-$(cat "$here/cudnn.txt" "$here/cuda-runtime.txt" | sha256sum | cut -c1-12)
elif [ "${1:-}" = --sanitizer ]; then
  shift
  pins=cuda-sanitizer.txt root=$cache/cuda-sanitizer-$(version_of cuda-sanitizer.txt nvidia-cuda-sanitizer-api)
  proof=bin/compute-sanitizer download='18 MB'
fi

case "${1:-}" in
  --where)
    echo "$root"
    exit 0
    ;;
  "") ;;
  *)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    [ "$1" = --help ] || [ "$1" = -h ] && exit 0
    exit 2
    ;;
esac

# Of the packages in $1: bin, include, lib and nvvm, as NVIDIA's installers lay them out.
lay_out_toolkit() {
  local made=$1/nvidia/cu13 library plain
  # Programs look for lib64, and for libraries without a version.
  ln -s lib "$made/lib64"
  for library in "$made"/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
  done
  mv -T "$made" "$root"
}

# cuDNN looks for cuBLASLt in its own folder.
lay_out_cudnn() {
  mv "$1"/nvidia/cu13/lib/libcublasLt.so.13 "$1/nvidia/cudnn/lib/"
  mv -T "$1/nvidia/cudnn" "$root"
}

# The libraries in one folder, because cuDNN looks for its parts beside itself, and licences/PACKAGE/ with each licence.
lay_out_runtime() {
  local made=$1/laid-out licence package
  mkdir -p "$made/lib" "$made/licences"
  mv "$1"/nvidia/*/lib/lib*.so.* "$made/lib/"
  for licence in "$1"/*.dist-info/licenses/*; do
    package=${licence#"$1"/} package=${package%%-*}
    install -D -m 0644 "$licence" "$made/licences/${package//_/-}/$(basename "$licence")"
  done
  mv -T "$made" "$root"
}

if [ ! -e "$root/$proof" ]; then
  if [ "$(uname -m)" != x86_64 ]; then
    echo "cuda-toolkit: the pinned packages are for x86-64, and this machine is $(uname -m)" >&2
    exit 1
  fi
  mkdir -p "$(dirname "$root")"
  exec 9>"$root.lock"
  flock -w 900 9 || {
    echo "cuda-toolkit: another process held $root.lock for 15 minutes; end it and try again" >&2
    exit 1
  }
fi
if [ ! -e "$root/$proof" ]; then
  rm -rf "$root".??????  # of installations that were killed: the lock is ours
  making=$(mktemp -d "$root.XXXXXX")
  trap 'rm -rf "$making"' EXIT
  echo "cuda-toolkit: installing the packages of $pins into $root ($download to download)" >&2
  /usr/bin/python3 -m venv "$making/venv"
  "$making/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --target "$making/packages" --requirement "$here/$pins" >&2 || {
    echo "cuda-toolkit: pip cannot install the packages of $pins ($download): does this machine reach pypi.org?" >&2
    exit 1
  }
  rm -rf "$root"  # a folder without $proof
  case $pins in
    cudnn.txt) lay_out_cudnn "$making/packages" ;;
    cuda-runtime.txt) lay_out_runtime "$making/packages" ;;
    cuda-sanitizer.txt) mv -T "$making/packages/nvidia/cu13" "$root" ;;
    *) lay_out_toolkit "$making/packages" ;;
  esac
fi
echo "$root"
