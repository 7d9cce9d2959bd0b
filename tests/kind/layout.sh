# shellcheck shell=bash
# Names and folders of the kind tests, for the scripts beside it. They keep all their files in one folder of the cache.
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lockstep
kind_state=$cache/kind

# Gives podman storage, networks and temporary files of its own: it touches no image or container of the machine.
# The sandbox has a /run of its own, and so podman takes each sandbox for a machine that has just booted.
write_configuration() {
  local limit
  limit=$(ulimit -Hn)
  mkdir -p "$kind_state/config" "$kind_state/networks" "$kind_state/storage" "$kind_state/tmp"
  cat >"$kind_state/config/containers.conf" <<CONF
[containers]
# Without CAP_SYS_RESOURCE no limit can be raised, and runc fails on podman's own defaults.
default_ulimits = ["nofile=$limit:$limit", "nproc=20000:20000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
lock_type = "file"
events_logger = "file"
tmp_dir = "/run/lockstep-kind/libpod"
[network]
network_backend = "netavark"
network_config_dir = "$kind_state/networks"
CONF
  cat >"$kind_state/config/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$kind_state/storage"
runroot = "/run/lockstep-kind/storage"
CONF
  export CONTAINERS_CONF=$kind_state/config/containers.conf CONTAINERS_STORAGE_CONF=$kind_state/config/storage.conf
  export TMPDIR=$kind_state/tmp
  export KIND_EXPERIMENTAL_PROVIDER=podman
}
