#!/usr/bin/env bash
#   tests/gpu/run.sh [PYTEST'S WORDS...]    runs the tests of this folder on the machine's GPU
# First it installs pinned packages of NVIDIA's into the cache (1.3 GB to download, once), and builds with nvcc.
# Needs no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
nvidia-smi -L >&2 || { echo "tests/gpu/run.sh: there is no GPU here (nvidia-smi lists none)" >&2; exit 69; }
scripts/cuda-toolkit.sh >/dev/null
libraries=$(scripts/cuda-toolkit.sh --runtime)/lib
scripts/build.sh cuda build/cuda "$(nproc)"
export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LOCKSTEP_BUILD=$PWD/build/cuda
exec /usr/bin/python3 -m pytest -s -rs -p no:cacheprovider tests/gpu "$@"
