#!/usr/bin/env bash
# Runs a command in a fresh Debian 12 that has git and make and nothing else, on a clone of this repository's HEAD:
#
#   tests/clean_root/clean_root.sh make demo
#   tests/clean_root/clean_root.sh tests/clean_root/follow_pages.sh   what the pages tell a newcomer to type
#   tests/clean_root/clean_root.sh sh -c 'make test && make test'     cold, then warm
#
# Needs root, debootstrap, and a kernel with mount namespaces. The pristine tree is kept in the cache
# (lockstep/clean-root.tar); every run unpacks it again, so what a run installs is gone with it. The new root is a mount
# of its own (pivot_root, not chroot), because containers cannot be started from a chroot. CLEAN_ROOT_KEEP=1 keeps it.
# CLEAN_ROOT_LEND=1 lends it this machine's compiled objects and programs of the test cluster, which take longest;
# packages, commands and files stay those of the fresh root.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
[ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "clean_root: needs root to make a root file system; run it with sudo" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "clean_root: debootstrap is missing; run: apt-get install debootstrap" >&2; exit 1; }

# A run holds a lock on its root, as each process inside does. Those without one are of killed runs.
roots=$cache/clean-roots
mkdir -p "$roots"
exec 9>"$roots/.lock"
flock 9
for old in "$roots"/*/; do
  if [ -d "$old" ] && [ ! -e "$old/.kept" ] && flock -n "$old" true; then rm -rf --one-file-system "$old"; fi
done

pristine=$cache/clean-root.tar
if [ ! -f "$pristine" ]; then
  echo "clean_root: making a pristine Debian 12 (once)" >&2
  work=$(mktemp -d "$roots/pristine.XXXXXX")
  debootstrap --variant=minbase --include=git,make,ca-certificates bookworm "$work" >"$cache/clean-root.log" 2>&1 ||
    { tail -n 5 "$cache/clean-root.log" >&2; rm -rf "$work"; exit 1; }
  tar -C "$work" -cf "$pristine.part" .
  mv "$pristine.part" "$pristine"
  rm -rf "$work"
fi

root=$(mktemp -d "$roots/XXXXXX")
exec 8<"$root"
flock 8
exec 9>&-
[ -z "${CLEAN_ROOT_KEEP:-}" ] || touch "$root/.kept"
cleanup() {
  [ -n "${CLEAN_ROOT_KEEP:-}" ] && { echo "clean_root: kept at $root" >&2; return; }
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
tar -C "$root" -xf "$pristine"
# What belongs to the machine and not to Debian: where names are resolved and whom the machine trusts.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
lent=()
if [ -n "${CLEAN_ROOT_LEND:-}" ]; then
  lent=("$cache/ccache" "$cache/cluster")
  mkdir -p "${lent[@]}"
fi
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
git clone -q --bare "$here" "$root/srv/lockstep.git"

cat >"$root/enter.sh" <<'INNER'
set -eu
root=$1; lent=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
for folder in $lent; do
  mkdir -p "$root/root/.cache/lockstep/${folder##*/}"
  mount --bind "$folder" "$root/root/.cache/lockstep/${folder##*/}"
done
cd "$root"
mkdir -p .old
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . .old
umount -l /.old
rmdir /.old 2>/dev/null || true
cd /root
git clone -q /srv/lockstep.git lockstep
cd lockstep
exec "$@"
INNER

# A PID namespace of its own: whatever the command leaves running ends with it, and it ends with this script.
env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 CI="${CI:-}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --pdeathsig KILL -- unshare --mount --pid --fork --kill-child bash "$root/enter.sh" "$root" "${lent[*]}" "$@"
