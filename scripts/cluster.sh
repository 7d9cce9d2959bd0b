#!/usr/bin/env bash
# make cluster / make cluster-down: a real cluster of three nodes on this machine with the operator installed. It has a
# volume for the claim of examples/storage/checkpoints.yaml. Standard output is one line for eval: KUBECONFIG, and PATH
# with kubectl and helm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${NAME:-dev}
tool=tests/cluster/cluster
case "${1:-}" in
  up)
    tests/cluster/binaries.sh >/dev/null
    "$tool" up --name "$name" --nodes "${NODES:-3}" ${OWNER:+--owner "$OWNER"} >/dev/null
    kubeconfig=$("$tool" kubeconfig --name "$name")
    images=$(mktemp -d)
    trap 'rm -rf "$images"' EXIT
    containers/build-images.sh build/release "$images" >&2
    for archive in "$images"/*.tar; do "$tool" load "$archive" --name "$name" >&2; done
    # examples/storage/checkpoints.yaml claims it; this cluster has no storage class that could create one.
    "$tool" volume default checkpoints --no-claim --size 10Gi --name "$name" >/dev/null
    bin=$(tests/cluster/binaries.sh kubectl helm)
    KUBECONFIG=$kubeconfig "$bin/helm" upgrade --install lockstep charts/lockstep -n lockstep-system --create-namespace \
      --set image.tag=dev --set image.pullPolicy=Never --wait --timeout 120s >&2
    echo "The cluster is up. Evaluate the next line in your shell. Remove everything with: make cluster-down" >&2
    echo "export KUBECONFIG=$kubeconfig PATH=$bin:\$PATH"
    ;;
  down) "$tool" down --name "$name" ;;
  *)
    echo "usage: scripts/cluster.sh up|down   (NAME=dev, NODES=3, OWNER=PID: removed when it ends)" >&2
    exit 2
    ;;
esac
