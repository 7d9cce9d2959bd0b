#!/usr/bin/env bash
# Process 1 of a node, in the node's own root folder: network, containerd, images, kubelet, kube-proxy. When it dies,
# the kernel ends every other process of the node: that is the node's power cord.
set -euo pipefail
cd /

hostname "$(cat /etc/hostname)"
mount --make-rshared /
# A machine that was off has a new boot id; the kubelet reports it, and the test cluster waits for it.
mount --bind /lockstep/node/boot-id /proc/sys/kernel/random/boot_id
mkdir -p /run/lockstep

# Polls, since neither the cable nor containerd sends an event when it is ready.
until_true() {
  local what=$1 end=$((SECONDS + 90))
  shift
  until "$@" >/dev/null 2>&1; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "boot.sh: $what did not come up within 90 s" >&2
      exit 1
    fi
    sleep 0.05
  done
}

until_true "the cable eth0" ip link show dev eth0
ip -batch /lockstep/node/network
echo 1 >/proc/sys/net/ipv4/ip_forward
if [ -e /proc/sys/net/bridge/bridge-nf-call-iptables ]; then echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables; fi

start() { /bin/bash /lockstep/node/start.sh "$1" & }

start containerd
until_true containerd ctr version
for archive in /lockstep/images/*.tar; do
  mark=/var/lib/lockstep-images/$(basename "$archive")
  if [ ! -e "$mark" ]; then
    ctr -n k8s.io images import --all-platforms "$archive"
    touch "$mark"
  fi
done
start kubelet
start kube-proxy
echo "boot.sh: all started"

# While process 1 waits, bash also collects orphans that containers leave to it.
sleep infinity &
wait
