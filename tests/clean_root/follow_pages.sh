#!/usr/bin/env bash
# Types the command blocks of README.md, docs/laptop.md and docs/install.md, word for word and in their order, and runs
# the tests on kind; prints the seconds of each. It is for a fresh Debian 12 with git and make and nothing else:
#
#   tests/clean_root/clean_root.sh tests/clean_root/follow_pages.sh                    laptop cluster install kind
#   tests/clean_root/clean_root.sh tests/clean_root/follow_pages.sh laptop cluster     these parts alone
#   tests/clean_root/follow_pages.sh --dry-run laptop                                  prints what it would type
#
# `install` types its blocks through tests/e2e/readme/test_install.py: there is no registry, so `docker` beside that
# file stands in for it. `kind` is `make test-kind`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# block PAGE HEADING: the first indented block below the heading.
block() {
  awk -v heading="$2" '
    /^#/ { here = $0; sub(/^#+ */, "", here); next }
    here == heading && /^    / { print substr($0, 5); found = 1; next }
    found && NF { exit }' "$1"
}

# typed NAME: runs what comes on standard input in one shell, as somebody who types it.
typed() {
  local name=$1 script begun=$SECONDS
  script=$(cat)
  [ -n "$script" ] || { echo "follow_pages: the page has no block for $name" >&2; exit 1; }
  printf '== %s\n' "$name" >&2
  printf '%s\n' "$script"
  [ -z "$dry" ] || return 0
  bash -euo pipefail -c "$script" </dev/null || { echo "follow_pages: FAILED: $name, $((SECONDS - begun)) s" >&2; exit 1; }
  echo "follow_pages: $name: $((SECONDS - begun)) s" >&2
}

dry=
if [ "${1:-}" = --dry-run ]; then
  dry=1
  shift
fi
[ $# -gt 0 ] || set -- laptop cluster install kind
for part; do
  case $part in
    laptop)
      block README.md Lockstep | grep '^make demo' | typed "README.md, on this machine"
      # shellcheck disable=SC2016  # the heading has the backticks
      block docs/laptop.md 'On this machine: `lockstep run`' | typed "docs/laptop.md"
      ;;
    cluster) block README.md "On a cluster" | typed "README.md, on a cluster" ;;
    install)
      echo "make setup-test build && /usr/bin/python3 -m pytest -q tests/e2e/readme/test_install.py" |
        typed "docs/install.md, on a cluster without a registry"
      ;;
    kind) echo "make test-kind" | typed "jobs on kind" ;;
    *)
      echo "follow_pages: no part is called $part; there are: laptop cluster install kind" >&2
      exit 2
      ;;
  esac
done
