#!/usr/bin/env bash
# Runs a command on a machine of its own as far as podman can tell. The command has process numbers, mounts, /run,
# cgroups and, without --network, a network of its own. When the command ends or its caller is killed, the kernel ends
# every process in it. The mounts, bridges and packet filter rules go with them.
#
#   sandbox.sh [--network] COMMAND...     --network: the host's network, for a build that downloads
#   sandbox.sh --sweep                    removes what a killed sandbox cannot: cgroups, files of stopped containers
set -euo pipefail
# shellcheck source=tests/kind/layout.sh
source "$(dirname "${BASH_SOURCE[0]}")/layout.sh"
mkdir -p "$kind_state"
group=lockstep-kind-$(stat -c %i "$kind_state")  # of this cache; a clean root has another one at the same path
namespaces=(--mount --pid --cgroup --ipc --uts --fork --kill-child)

# Prints the mounts of cgroup version 1, and of version 2 beside them; nothing on a machine with version 2 alone.
hierarchies() {
  if grep -q '^[^ ]* [^ ]* cgroup ' /proc/mounts; then awk '$3 ~ /^cgroup2?$/ { print $2 }' /proc/mounts; fi
}

sweep() {
  local hierarchy folder
  for hierarchy in $(hierarchies); do
    [ -d "$hierarchy/$group" ] || continue
    # From the leaves up; the kernel may take a moment to reap the processes of the sandbox.
    for _ in {1..50}; do
      find "$hierarchy/$group" -depth -type d 2>/dev/null | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
      [ -d "$hierarchy/$group" ] || break
      sleep 0.1
    done
  done
  rm -rf "$kind_state/networks"
  # Trees that a killed prepare.sh was about to pack.
  find "$kind_state/tmp" -mindepth 1 -maxdepth 1 ! -name buildah-cache -exec rm -rf --one-file-system {} + 2>/dev/null || true
  # Containers of a killed sandbox have ended, but podman keeps their files and volumes; those of a build are external.
  write_configuration
  if grep -q '"id"' "$kind_state/storage/overlay-containers/containers.json" 2>/dev/null; then
    unshare "${namespaces[@]}" --net bash "$0" --inside own sh -c \
      'podman ps --all --external --quiet | xargs -r podman rm --force --volumes && podman volume prune --force' >/dev/null 2>&1 || true
  fi
}

enter_cgroups() {
  local hierarchy knob
  for hierarchy in $(hierarchies); do
    mkdir -p "$hierarchy/$group"
    for knob in cpuset.cpus cpuset.mems; do
      if [ -e "$hierarchy/$knob" ]; then cat "$hierarchy/$knob" >"$hierarchy/$group/$knob"; fi
    done
    echo "$BASHPID" >"$hierarchy/$group/cgroup.procs"
  done
}

# In the new namespaces: process 1 of the sandbox.
inside() {
  mount --make-rprivate /
  mount -t proc proc /proc
  if [ -n "$(hierarchies)" ]; then
    # Mounted here, each hierarchy shows the sandbox's own group as its root.
    local rows hierarchy options
    rows=$(awk '$3 == "cgroup" { print $2, $4 }' /proc/mounts)  # without version 2
    mount -t tmpfs -o mode=755 lockstep-kind /sys/fs/cgroup
    while read -r hierarchy options; do
      mkdir -p "$hierarchy"
      options=$(tr , '\n' <<<"$options" | grep -vE '^(rw|ro|nosuid|nodev|noexec|relatime|xattr)$' | paste -sd,)
      case $options in *name=*) options=none,$options ;; esac
      mount -t cgroup -o "$options" lockstep-kind "$hierarchy"
    done <<<"$rows"
  fi
  local names
  names=$(cat /etc/resolv.conf 2>/dev/null || true)
  mount -t tmpfs -o mode=755 lockstep-kind /run
  mkdir -p /run/lock
  if [ ! -e /etc/resolv.conf ] && [ -L /etc/resolv.conf ]; then
    # It leads into the host's /run, as systemd-resolved has it.
    mkdir -p "$(dirname "$(readlink -m /etc/resolv.conf)")"
    echo "$names" >"$(readlink -m /etc/resolv.conf)"
  fi
  if [ ! -d /lib/modules ]; then
    # kind binds this folder into its nodes; a machine whose kernel has no modules may not have it.
    mkdir -p /run/lib/upper/modules /run/lib/work
    mount -t overlay -o "lowerdir=$(readlink -f /lib),upperdir=/run/lib/upper,workdir=/run/lib/work" overlay "$(readlink -f /lib)"
  fi
  if [ "$network" = own ]; then ip link set lo up; fi
  # Nested mounts of the nodes travel by propagation within the sandbox alone.
  mount --make-rshared /
  # Process 1 ignores signals without a handler. On SIGTERM it gives the command 10 s, and ends with all other
  # processes.
  "$@" &
  local child=$! status=0 ended=
  trap 'ended=143; kill -TERM "$child" 2>/dev/null; { sleep 10; kill -KILL "$child"; } 2>/dev/null &' TERM INT
  await "$child" || status=$?
  exit "${ended:-$status}"
}

# await PID: the exit status of a child, however many signals interrupt the waiting.
await() {
  local status
  while :; do
    status=0
    wait "$1" || status=$?
    kill -0 "$1" 2>/dev/null || return "$status"
  done
}

network=own
case "${1:-}" in
  --sweep)
    sweep
    exit 0
    ;;
  --inside)
    network=$2
    shift 2
    inside "$@"
    ;;
  --network)
    network=host
    shift
    ;;
esac
if [ $# -eq 0 ]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit 2
fi

exec 8>"$kind_state/lock"
flock -w 3000 8 || { echo "sandbox.sh: another sandbox held $kind_state/lock for 50 minutes; end it and try again" >&2; exit 1; }
sweep
if [ "$network" = own ]; then namespaces+=(--net); fi
# The guard outlives this process however it ends: its pipe closes then. It removes the remains, and holds the lock
# until then.
# shellcheck disable=SC2016  # expanded by that shell
exec 7> >(trap '' TERM INT HUP && exec setsid bash -c 'trap "" TERM INT HUP; cat >/dev/null; exec "$0" --sweep' "$(readlink -f "$0")" >/dev/null 2>&1)
(
  enter_cgroups
  exec setpriv --pdeathsig KILL -- unshare "${namespaces[@]}" bash "$0" --inside "$network" "$@" 7>&- 8>&-
) &
child=$!
ended=
# unshare itself lets no signal through; its child is process 1 of the sandbox.
trap 'ended=143; pkill -TERM -P "$child" 2>/dev/null || true' TERM INT
status=0
await "$child" || status=$?
sweep
exit "${ended:-$status}"
