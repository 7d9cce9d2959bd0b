#!/usr/bin/env bash
# Prints the path of a Python that has PyTorch and torchft, for the benchmark that runs them beside Lockstep; creates it
# if there is none.
#
# It lives in ${XDG_CACHE_HOME:-~/.cache}/lockstep/torchft-<version> and takes PyTorch from where tests/e2e/torch.sh
# keeps it. It installs the packages that `import torchft` needs. Two at once wait for each other; one that was killed
# leaves a folder without its stamp, which the next one recreates.
set -euo pipefail

version=0.2.0
packages=(
  "torchft==$version" opentelemetry-api==1.39.0 opentelemetry-sdk==1.39.0 opentelemetry-exporter-otlp-proto-http==1.39.0
  opentelemetry-exporter-otlp-proto-common==1.39.0 opentelemetry-proto==1.39.0 opentelemetry-semantic-conventions==0.60b0
  protobuf==6.33.6 googleapis-common-protos==1.76.0 importlib_metadata==8.7.1 zipp==4.1.2 requests==2.34.2 urllib3==2.8.0
  idna==3.20 certifi==2026.10.18 charset-normalizer==3.5.2
)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
torch=$("$here/../../e2e/torch.sh")
base=/usr/bin/python3
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/torchft-$version
stamp="$torch ${packages[*]}"

complete() { [ "$(cat "$folder/complete" 2>/dev/null)" = "$stamp" ]; }

give_up() {
  echo "torchft.sh: torchft $version cannot be $1 (see $folder.log)" >&2
  exit 1
}

if ! complete; then
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock -w 600 9 || { echo "torchft.sh: another one has been creating $folder for 10 minutes" >&2; exit 1; }
  if ! complete; then
    rm -rf "$folder"
    $base -m venv "$folder" >"$folder.log" 2>&1 || give_up "given a virtual environment"
    site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    "$torch" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' >"$site/torch.pth"
    "$folder/bin/pip" install --no-deps --no-cache-dir --no-input --disable-pip-version-check --retries 2 --timeout 30 \
      "${packages[@]}" >>"$folder.log" 2>&1 || give_up downloaded
    env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX "$folder/bin/python" -c \
      'import torchft, torchft.checkpointing, torchft.coordination' >>"$folder.log" 2>&1 || give_up imported
    echo "$stamp" >"$folder/complete"
  fi
fi
echo "$folder/bin/python"
