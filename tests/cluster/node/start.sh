#!/usr/bin/env bash
# Becomes one daemon of a node; its process number and start time go to /run/lockstep/COMPONENT, its output to /var/log.
#
#   start.sh containerd|kubelet|kube-proxy
set -euo pipefail
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

component=$1
started=$(sed 's/.*) //' "/proc/$$/stat" | cut -d ' ' -f 20)
echo "$$ $started" >"/run/lockstep/$component"
exec </dev/null >>"/var/log/$component.log" 2>&1

case $component in
  containerd)
    exec containerd --config /lockstep/node/containerd.toml
    ;;
  kubelet)
    # shellcheck disable=SC2046  # one flag per line, none holds a blank
    exec nice -n -5 /lockstep/bin/kubelet $(cat /lockstep/node/kubelet-flags)
    ;;
  kube-proxy)
    exec /lockstep/bin/kube-proxy --config /lockstep/node/kube-proxy.json
    ;;
  *)
    echo "start.sh: no such component: $component" >&2
    exit 2
    ;;
esac
