#!/usr/bin/env bash
# Creates the files of a release from a build: a Debian package, the static agent, the chart, an SBOM and checksums.
#
#   scripts/release-files.sh BUILD_FOLDER OUT_FOLDER VERSION IMAGE
#
# IMAGE is the operator's image without a tag, under the name that users pull; the chart uses it by default.
set -euo pipefail
if [ $# -ne 4 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 out=$2 version=$3 image=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

DESTDIR=$work/deb cmake --install "$build" --prefix /usr >/dev/null
# Debian's packages with the libraries that the programs link to, each with its version.
# ldd fails for the static agent, which needs none.
# shellcheck disable=SC2016  # expanded by dpkg-query
{ find "$work/deb/usr" -type f -perm -u+x -exec ldd {} + 2>/dev/null || true; } |
  awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  xargs -r readlink -f | while read -r library; do
    dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "${library#/usr}"
  done |
  cut -d: -f1 | sort -u | xargs dpkg-query -W -f '${Package} ${Version}\n' >"$work/packages"

mkdir "$work/deb/DEBIAN"
cat >"$work/deb/DEBIAN/control" <<CONTROL
Package: lockstep
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: Lockstep
Depends: $(awk '{ printf "%s%s (>= %s)", sep, $1, $2; sep = ", " }' "$work/packages")
Description: data-parallel training on a laptop and on Kubernetes
CONTROL
dpkg-deb --root-owner-group --build "$work/deb" "$out/lockstep_${version}_$(dpkg --print-architecture).deb" >/dev/null

install -m 0755 "$work/deb/usr/bin/lockstep-agent" "$out/lockstep-agent-linux-$(uname -m)"
if ldd "$out/lockstep-agent-linux-$(uname -m)" >/dev/null 2>&1; then
  echo "release-files.sh: lockstep-agent is not static" >&2
  exit 1
fi
helm=$(tests/cluster/binaries.sh helm | tail -n 1)/helm
cp -r charts/lockstep "$work/chart"
sed -i "s|^  repository: .*|  repository: $image|" "$work/chart/values.yaml"
if [ "$(grep -cxF "  repository: $image" "$work/chart/values.yaml")" != 1 ]; then
  echo "release-files.sh: not one line of the chart's values names the image" >&2
  exit 1
fi
"$helm" package "$work/chart" --version "$version" --app-version "$version" -d "$out" >/dev/null

# SPDX 2.3: the package, and the packages that it depends on.
/usr/bin/python3 - "$version" "$work/packages" >"$out/lockstep-$version.spdx.json" <<'PYTHON'
import datetime
import json
import sys

version, packages = sys.argv[1:]
rows = [("lockstep", version), *(line.split() for line in open(packages))]
now = datetime.datetime.now(datetime.timezone.utc)


def identifier(name):
    return "SPDXRef-" + name.replace("+", ".")  # SPDX allows no plus sign, as in libstdc++6


def relation(of, kind, to):
    return {"spdxElementId": identifier(of), "relationshipType": kind, "relatedSpdxElement": identifier(to)}


print(json.dumps({
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
    "name": f"lockstep-{version}",
    "documentNamespace": f"https://lockstep.dev/spdx/lockstep-{version}",
    "creationInfo": {"creators": ["Tool: release-files.sh"], "created": now.strftime("%Y-%m-%dT%H:%M:%SZ")},
    "packages": [{"SPDXID": identifier(name), "name": name, "versionInfo": number,
                  "downloadLocation": "NOASSERTION", "filesAnalyzed": False} for name, number in rows],
    "relationships": [relation("DOCUMENT", "DESCRIBES", "lockstep"),
                      *(relation("lockstep", "DEPENDS_ON", name) for name, _ in rows[1:])],
}, indent=1))
PYTHON
(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
