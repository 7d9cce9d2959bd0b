#!/usr/bin/env bash
# Called inside the sandbox: tests whether a node of kind could run here. The last line on stderr names what is missing.
set -euo pipefail
podman info >/dev/null
# Storage of podman is an overlay, as is the one of containerd inside a node.
work=$(mktemp -d -p "$TMPDIR")
trap 'umount "$work/merged" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work"/{lower,upper,work,merged}
mount -t overlay overlay -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" "$work/merged" ||
  { echo "no overlay can be mounted in $TMPDIR" >&2; exit 1; }
# A node creates cgroups of its own.
for hierarchy in cpu memory pids; do
  [ -d "/sys/fs/cgroup/$hierarchy" ] ||
    { echo "no hierarchy $hierarchy of cgroup version 1; on version 2 use LOCKSTEP_KIND_ENGINE=docker" >&2; exit 1; }
  { mkdir -p "/sys/fs/cgroup/$hierarchy/probe" && rmdir "/sys/fs/cgroup/$hierarchy/probe"; } ||
    { echo "no cgroup can be created in /sys/fs/cgroup/$hierarchy" >&2; exit 1; }
done
{ ip link add kind-probe type bridge && ip link del kind-probe; } || { echo "no bridge can be created" >&2; exit 1; }
nft list ruleset >/dev/null || { echo "nftables does not work" >&2; exit 1; }
