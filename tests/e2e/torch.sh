#!/usr/bin/env bash
# Prints the path of a Python that has PyTorch, for tests that run a PyTorch program; makes it where there is none.
# With --present it fails there instead. With --compiler the Python also has what torch.compile imports.
#
# It lives in a virtual environment of its own, ${XDG_CACHE_HOME:-~/.cache}/lockstep/torch-<version>. The list is what
# `import torch` and DistributedDataParallel over gloo need of PyTorch's dependencies. libtorch is linked with the CUDA
# libraries and does not load without them, GPU or not. The sixth of what pip would bring that nothing here loads is
# left out. The first call downloads 2.4 GB; the folder then has 4 GB. Two at once wait for each other; one that was
# killed leaves a folder without its stamp, which the next one creates again.
set -euo pipefail

version=2.15.0
packages=(
  "torch==$version" typing_extensions==4.16.0 sympy==1.14.0 mpmath==1.3.0
  nvidia-cublas==13.4.1.3 nvidia-cuda-cupti==13.2.86 nvidia-cuda-nvrtc==13.2.86 nvidia-cuda-runtime==13.2.86
  nvidia-cudnn-cu13==9.26.0.51 nvidia-cufft==12.2.0.57 nvidia-cufile==1.17.1.22 nvidia-cusparse==12.7.10.12
  nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-nvjitlink==13.5.37 nvidia-nvshmem-cu13==3.7.2
)
compiler=(filelock==4.3.1 networkx==3.6.1)
base=/usr/bin/python3
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/torch-$version
stamp="$($base --version) ${packages[*]}"

complete() { [ "$(cat "$folder/complete" 2>/dev/null)" = "$stamp" ]; }

give_up() {
  local why
  why=$(grep -E '^[A-Za-z]*(ERROR|Error):' "$folder.log" | tail -1 || true)
  if grep -q 'connection broken' "$folder.log"; then
    why="the package index of pip does not answer: is there a network?"
  fi
  echo "torch.sh: PyTorch $version cannot be $1 (${why:-see $folder.log}); the tests with PyTorch need it, here or" \
    "already made in $folder" >&2
  exit 1
}

import_all() {
  env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX "$folder/bin/python" -c \
    'import torch.distributed, torch._dynamo; assert torch.distributed.is_gloo_available()' >>"$folder.log" 2>&1
}

has_compiler() { [ "$(cat "$folder/compiler" 2>/dev/null)" = "${compiler[*]}" ]; }

wait_for_others() {
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock -w 1200 9 || { echo "torch.sh: another one has been making $folder for 20 minutes" >&2; exit 1; }
}

# No dependencies: the lists are whole. No cache of pip's own, which would hold the same 2.4 GB again.
install() {
  "$folder/bin/pip" install --no-deps --no-cache-dir --no-compile --no-input --disable-pip-version-check --retries 2 \
    --timeout 30 "$@" >>"$folder.log" 2>&1 || give_up downloaded
}

if [ "${1:-}" = --present ]; then complete || exit 1; fi
if ! complete; then
  wait_for_others
  if ! complete; then
    rm -rf "$folder"
    $base -m venv "$folder" >"$folder.log" 2>&1 || give_up "given a virtual environment"
    install "${packages[@]}"
    import_all || give_up imported
    touch "$folder/compiled"
    echo "$stamp" >"$folder/complete"
  fi
fi
# What was imported once is kept compiled, whatever the caller's environment says; it is three times as fast then.
if [ ! -e "$folder/compiled" ]; then
  import_all || give_up imported
  touch "$folder/compiled"
fi
if [ "${1:-}" = --compiler ] && ! has_compiler; then
  wait_for_others
  if ! has_compiler; then
    install "${compiler[@]}"
    echo "${compiler[*]}" >"$folder/compiler"
  fi
fi
echo "$folder/bin/python"
