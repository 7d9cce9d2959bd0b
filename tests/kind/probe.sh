#!/usr/bin/env bash
# Called inside the sandbox: whether a node of kind could run here. The last line on stderr says what is missing.
set -euo pipefail
podman info >/dev/null
# Storage of podman is an overlay, as is the one of containerd inside a node.
work=$(mktemp -d -p "$TMPDIR")
trap 'umount "$work/merged" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work"/{lower,upper,work,merged}
mount -t overlay overlay -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" "$work/merged" ||
  { echo "no overlay can be mounted in $TMPDIR" >&2; exit 1; }
# A node creates cgroups of its own; of version 2 the controllers have to be there for it.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  for controller in cpu memory pids; do
    grep -qw "$controller" /sys/fs/cgroup/cgroup.controllers ||
      { echo "the cgroup controller $controller is not delegated" >&2; exit 1; }
  done
fi
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/memory; do
  [ -d "$hierarchy" ] || continue
  if [ "$hierarchy" = /sys/fs/cgroup ] && [ ! -e "$hierarchy/cgroup.controllers" ]; then continue; fi
  { mkdir -p "$hierarchy/probe" && rmdir "$hierarchy/probe"; } ||
    { echo "no cgroup can be created in $hierarchy" >&2; exit 1; }
done
{ ip link add kind-probe type bridge && ip link del kind-probe; } || { echo "no bridge can be created" >&2; exit 1; }
nft list ruleset >/dev/null || { echo "nftables does not work" >&2; exit 1; }
