#!/usr/bin/env bash
# Prints the Debian mirror of this machine's own apt, which images use too: no file of the repository has its address.
#
#   mirror.sh [FOLDER]     FOLDER has the sources of apt (default: /etc/apt)
set -euo pipefail
folder=${1:-/etc/apt}
# shellcheck disable=SC2016  # words of awk
first_address='
  /^URIs: *http/ { print $2; exit }
  /^deb / { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; exit } }'
for sources in "$folder/sources.list.d/debian.sources" "$folder/sources.list"; do
  [ -r "$sources" ] || continue  # a system has one of the two
  found=$(awk "$first_address" "$sources")
  [ -z "$found" ] || { echo "$found"; exit 0; }
done
echo "mirror.sh: no Debian mirror in $folder; add one to $folder/sources.list" >&2
exit 1
