#!/usr/bin/env bash
# Puts programs and every shared library that they need into a folder that can be the root of a container.
#
#   containers/collect.sh FOLDER PROGRAM:PATH...     PATH is where the program lies in the container
#
# A library counts as a program. What is at its PATH in FOLDER already stays as it is.
set -euo pipefail
if [ $# -lt 2 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0"
  exit 2
fi
root=$1
shift
for pair in "$@"; do
  program=${pair%%:*}
  [ -f "$program" ] || { echo "collect.sh: $program is not there; build it first" >&2; exit 1; }
  [ "$program" -ef "$root${pair#*:}" ] || install -D -m 0755 "$program" "$root${pair#*:}"
  needed=$(ldd "$program" 2>/dev/null || true)  # ldd fails for a static program, which needs none
  if missing=$(grep -F 'not found' <<<"$needed"); then
    echo "collect.sh: $program needs libraries that are not there: $missing" >&2
    exit 1
  fi
  awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// && $2 != "=>" {print $1}' <<<"$needed" | sort -u | while read -r library; do
    case $library in "$root"/*) continue ;; esac
    install -D -m 0755 "$library" "$root$library"  # install follows links, so the file has the name that is looked for
  done
done
