#!/usr/bin/env bash
# make cluster / make cluster-down: a real cluster of three nodes on this machine with the operator installed in it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${NAME:-dev}
tool=tests/cluster/cluster
case "${1:-}" in
  up)
    tests/cluster/binaries.sh >/dev/null
    "$tool" up --name "$name" --nodes "${NODES:-3}" >/dev/null
    kubeconfig=$("$tool" kubeconfig --name "$name")
    images=$(mktemp -d)
    trap 'rm -rf "$images"' EXIT
    containers/build-images.sh build/release "$images" >&2
    for archive in "$images"/*.tar; do "$tool" load "$archive" --name "$name" >&2; done
    helm=$(tests/cluster/binaries.sh helm)/helm
    KUBECONFIG=$kubeconfig "$helm" upgrade --install lockstep charts/lockstep -n lockstep-system --create-namespace \
      --set image.tag=dev --set image.pullPolicy=Never --wait --timeout 120s >&2
    echo "The cluster is up. kubectl and helm are in $(dirname "$helm"); remove everything with: make cluster-down" >&2
    echo "export KUBECONFIG=$kubeconfig"
    ;;
  down) "$tool" down --name "$name" ;;
  *)
    echo "usage: scripts/cluster.sh up|down   (NAME=dev, NODES=3)" >&2
    exit 2
    ;;
esac
