#!/usr/bin/env bash
# Prints the folder of Debian's prometheus and promtool. The first call downloads the package and unpacks it; it is not
# installed, because an installed one starts the machine's own service.
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/prometheus
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ ! -x "$folder/usr/bin/promtool" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  download() { (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root prometheus >&2); }
  download || { apt-get update -qq >&2; download; } # the machine's lists may be missing, or older than the package
  rm -rf "$folder" "$folder.part"
  dpkg-deb -x "$work"/prometheus_*.deb "$folder.part"
  mv "$folder.part" "$folder"
fi
echo "$folder/usr/bin"
