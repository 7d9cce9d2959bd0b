#!/usr/bin/env bash
# Configures (if needed) and builds a preset:  scripts/build.sh PRESET FOLDER JOBS [TARGET...]
# LOCKSTEP_CUDA_TOOLKIT=FOLDER is the toolkit of the preset cuda, if not that of scripts/cuda-toolkit.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1 folder=$2 jobs=$3
shift 3
# These keep the compiler's cache valid when the checkout moves to another folder or into a container; its key includes
# LANG.
unset LC_ALL LC_CTYPE LC_MESSAGES
export LANG=C.UTF-8
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_DIR=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/ccache}
mkdir -p "$CCACHE_DIR"
toolkit=
[ "$preset" != cuda ] || toolkit=${LOCKSTEP_CUDA_TOOLKIT:-}
if [ ! -f "$folder/build.ninja" ] ||
  { [ -n "$toolkit" ] && ! grep -q "^LOCKSTEP_CUDA_TOOLKIT:.*=$toolkit\$" "$folder/CMakeCache.txt"; }; then
  mkdir -p "$folder"
  # One compile per room (unity) is three times faster from cold; for editing, use the debug preset as it is.
  cmake --preset "$preset" -B "$folder" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 ${toolkit:+"-DLOCKSTEP_CUDA_TOOLKIT=$toolkit"} >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log" >&2; exit 1; }
fi
quiet=()
[ -t 1 ] || quiet=(--quiet)
NINJA_STATUS="[%f/%t %es] " ninja -C "$folder" -j "$jobs" "${quiet[@]}" "$@"
