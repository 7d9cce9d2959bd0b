#!/usr/bin/env bash
# Renders manifests/install.yaml from the chart, and copies manifests/crd.yaml into it: one source for each.
#
#   scripts/render-manifests.sh            writes them
#   scripts/render-manifests.sh --check    only says whether they are up to date (exit 1 if not)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
helm=$(tests/cluster/binaries.sh helm | tail -n 1)/helm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

chart=charts/lockstep
cp -r "$chart" "$work/lockstep"
mkdir -p "$work/lockstep/files"
cp manifests/crd.yaml "$work/lockstep/files/crd.yaml"
{
  echo "# Lockstep in one file: kubectl apply -f manifests/install.yaml."
  echo "# Rendered by scripts/render-manifests.sh; change the chart instead."
  echo "apiVersion: v1"
  echo "kind: Namespace"
  echo "metadata:"
  echo "  name: lockstep-system"
  "$helm" template lockstep "$work/lockstep" --namespace lockstep-system --kube-version 1.30.0 | sed -e '/managed-by: Helm/d' -e '/^# Source: /d'
} >"$work/install.yaml"

if [ "${1:-}" = "--check" ]; then
  status=0
  for pair in "manifests/crd.yaml $chart/files/crd.yaml" "$work/install.yaml manifests/install.yaml"; do
    read -r new old <<<"$pair"
    cmp -s "$new" "$old" || { echo "$old differs from the rendered chart; run scripts/render-manifests.sh" >&2; status=1; }
  done
  exit $status
fi
mkdir -p "$chart/files"
cp manifests/crd.yaml "$chart/files/crd.yaml"
cp "$work/install.yaml" manifests/install.yaml
