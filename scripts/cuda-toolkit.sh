#!/usr/bin/env bash
# Makes the CUDA toolkit that the build uses where it has one, and prints its folder. Needs no GPU, no driver and no
# root.
#
#   scripts/cuda-toolkit.sh           installs the pinned packages of cuda-toolkit.txt into the cache (310 MB)
#   scripts/cuda-toolkit.sh --where   only prints where that is, or would be
set -euo pipefail

pins=$(dirname "${BASH_SOURCE[0]}")/cuda-toolkit.txt
version=$(sed -n 's/^nvidia-cuda-nvcc==\([0-9.]*\).*/\1/p' "$pins")
root=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/cuda-$version

case "${1:-}" in
  --where)
    echo "$root"
    exit 0
    ;;
  "") ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    [ "$1" = --help ] || [ "$1" = -h ] && exit 0
    exit 2
    ;;
esac

if [ ! -x "$root/bin/nvcc" ]; then
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
if [ ! -x "$root/bin/nvcc" ]; then
  making=$(mktemp -d "$root.XXXXXX")
  trap 'rm -rf "$making"' EXIT
  echo "cuda-toolkit: installing CUDA $version into $root (120 MB to download)" >&2
  /usr/bin/python3 -m venv "$making/venv"
  "$making/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
    --target "$making/packages" --requirement "$pins" >&2
  made=$making/packages/nvidia/cu13
  # Programs look for lib64, and for libraries without a version.
  ln -s lib "$made/lib64"
  for library in "$made"/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
  done
  rm -rf "$root"  # a folder without nvcc
  mv -T "$made" "$root"
fi
echo "$root"
