#!/usr/bin/env bash
# usage: scripts/debian-programs.sh PACKAGE
# Prints the folder with the programs of a Debian package. The first call downloads the package and unpacks it. It is
# not installed, because an installed one may start a service of its own.
set -euo pipefail

package=${1:?usage: scripts/debian-programs.sh PACKAGE}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/$package
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ ! -d "$folder/usr/bin" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  download() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2); }
  download || { apt-get update -qq >&2; download; } # the machine's lists may be missing, or older than the package
  rm -rf "$folder" "$folder.part"
  dpkg-deb -x "$work/$package"_*.deb "$folder.part"
  mv "$folder.part" "$folder"
fi
echo "$folder/usr/bin"
