#!/usr/bin/env bash
# make dashboard: a real run for docs/dashboard.svg. On a test cluster, jobs lose ranks, a pod, a node, the leader
# and the API server. Prometheus scrapes the operators, and scripts/dashboard_picture.py draws what it has. Needs root.
#
#   scripts/dashboard_run.sh SVG      after `make build`; NAME=dashboard names the cluster, PORT=9091 is Prometheus'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
svg=${1:?usage: scripts/dashboard_run.sh SVG}
name=${NAME:-dashboard}
port=${PORT:-9091}
scrape=5 # seconds
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
  echo "dashboard_run.sh: port $port is in use: set PORT to a free one" >&2
  exit 1
fi

work=$(mktemp -d)
prometheus=
finish() {
  [ -z "$prometheus" ] || kill "$prometheus" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

say() { printf '  %5d s  %s\n' "$SECONDS" "$*" >&2; }

programs=$(scripts/debian-programs.sh prometheus)

# The cluster and Prometheus end with this shell, even when it is killed. A cluster of that name that is up is refused.
say "the cluster"
eval "$(NAME=$name OWNER=$$ scripts/cluster.sh up 2>"$work/up.log" || { cat "$work/up.log" >&2; echo false; })"
cat >"$work/prometheus.yml" <<END
global: {scrape_interval: ${scrape}s}
scrape_configs:
- job_name: lockstep
  file_sd_configs: [{files: [$work/targets.json]}]
END
# Waits for the operators and says where they are: Debian's Prometheus does not discover pods.
operators() {
  kubectl rollout status -n lockstep-system deployment/lockstep-operator --timeout=120s >/dev/null
  kubectl get pods -n lockstep-system -l app.kubernetes.io/name=lockstep -o json |
    jq '[.items[] | {targets: [.status.podIP + ":8080"], labels: {pod: .metadata.name}}]' >"$work/targets.part"
  mv "$work/targets.part" "$work/targets.json"
}
operators
setpriv --pdeathsig TERM -- "$programs/prometheus" --config.file="$work/prometheus.yml" \
  --storage.tsdb.path="$work/data" --web.listen-address="127.0.0.1:$port" >"$work/prometheus.log" 2>&1 &
prometheus=$!
curl -sf --retry 30 --retry-delay 1 --retry-connrefused "http://127.0.0.1:$port/-/ready" >/dev/null ||
  { tail -n 5 "$work/prometheus.log" >&2; exit 1; }
started=$SECONDS

# job NAME NODES GPUS STEPS [LINE]: applies a job that makes at most ten steps a second
job() {
  kubectl apply -f - >/dev/null <<END
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: $1}
spec:
  image: docker.io/lockstep/trainer:dev
  command: [lockstep-trainer, --model=mlp, --batch-size=12, --micro-batch-size=2, --threads=1,
            --min-step-seconds=0.1, --steps=$4]
  nodes: $2
  gpusPerNode: $3
  procsPerNode: 1
  restart: {maxRestarts: 100, forceDeleteAfterSeconds: 1}
  ${5:-}
END
}

# trains NAME NODES: waits until so many pods of the job train together
trains() {
  kubectl wait "trainingjob/$1" --for="jsonpath={.status.worldSize}=$2" --timeout=180s >/dev/null
  kubectl wait "trainingjob/$1" --for="jsonpath={.status.nodes.ready}=$2" --timeout=180s >/dev/null
}

# kill_rank NAME: ends the training process of one of the job's pods
kill_rank() {
  local pod folder
  pod=$(kubectl get pods -l "lockstep.dev/job=$1" --field-selector=status.phase=Running -o name | shuf -n 1)
  for folder in /proc/[0-9]*; do
    if grep -qs lockstep-traine "$folder/comm" && grep -qsz "^LOCKSTEP_POD_NAME=${pod#pod/}$" "$folder/environ"; then
      kill -KILL "${folder#/proc/}" && return
    fi
  done
  echo "dashboard_run.sh: $pod has no training process" >&2
  return 1
}

# await SECONDS COMMAND...: waits until a command succeeds. It asks again and again, because the commands ask programs
# that announce nothing.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    if [ "$SECONDS" -ge "$end" ]; then
      echo "dashboard_run.sh: in vain: $*" >&2
      return 1
    fi
    sleep 0.2
  done
}

# disturb NAME NODES COMMAND...: runs a command that ends the job's generation, and waits until so many pods train in
# a newer one
generation() { kubectl get "trainingjob/$1" -o jsonpath='{.status.membershipGeneration}'; }
is_newer() { [ "$(generation "$1")" -gt "$2" ]; }
disturb() {
  local name=$1 nodes=$2 before
  shift 2
  before=$(generation "$name")
  before=${before:-0}
  "$@"
  await 180 is_newer "$name" "$before"
  trains "$name" "$nodes"
}
delete_pod() {
  kubectl delete --wait=false "$(kubectl get pods -l "lockstep.dev/job=$1" -o name | shuf -n 1)" >/dev/null
}

# scrapes COUNT: a stretch of the picture: waits until Prometheus has asked each operator so often
scraped() {
  curl -sf "http://127.0.0.1:$port/metrics" |
    awk '/^prometheus_target_interval_length_seconds_count\{/ {sum += $2} END {print sum + 0}'
}
has_scraped() { [ "$(scraped)" -ge "$1" ]; }
scrapes() { await $(($1 * scrape * 4)) has_scraped $(($(scraped) + $1 * $(jq length "$work/targets.json"))); }

# The pod of the leading operator; the holder's name is that of the pod and a random suffix.
leader() { kubectl get lease -n lockstep-system lockstep-operator -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1; }

say "two jobs, one of them with a spare"
job wide 4 2 100000 'elastic: {minNodes: 2, maxNodes: 6, stabilizationSeconds: 1}'
job spare 3 2 100000 'spares: {nodes: 1}'
trains wide 4
trains spare 3
scrapes 6

say "ranks are killed"
for round in 1 2 3 4; do
  disturb wide 4 kill_rank wide
  scrapes 1
  if [ "$round" != 4 ]; then disturb spare 3 kill_rank spare; fi
  scrapes 3
done
say "pods are deleted"
for round in 1 2; do
  disturb wide 4 delete_pod wide
  scrapes 3
done
say "a queue of small jobs"
for number in 1 2 3 4 5 6 7 8 9 10; do job "small-$number" 2 2 100; done
for number in 1 2 3 4 5 6 7 8 9 10; do
  kubectl wait "trainingjob/small-$number" --for=jsonpath='{.status.state}'=Succeeded --timeout=300s >/dev/null
done
say "the job grows and shrinks"
kubectl scale trainingjob/wide --replicas=6 >/dev/null
trains wide 6
scrapes 4
kubectl scale trainingjob/wide --replicas=4 >/dev/null
trains wide 4
say "the leading operator is deleted"
kubectl delete pod -n lockstep-system "$(leader)" >/dev/null
operators
scrapes 6
disturb wide 4 kill_rank wide
scrapes 3
say "the API server restarts"
tests/cluster/cluster kill-api-server --name "$name" >/dev/null
scrapes 1
tests/cluster/cluster start-api-server --name "$name" >/dev/null
await 60 kubectl get --raw /readyz >"$work/readyz" 2>&1
scrapes 3
trains wide 4
say "a node is powered off"
tests/cluster/cluster power-off --name "$name" n3 >/dev/null
kubectl wait node/n3 --for=condition=Ready=Unknown --timeout=120s >/dev/null
operators
scrapes 6
tests/cluster/cluster power-on --name "$name" n3 >/dev/null
kubectl wait node/n3 --for=condition=Ready --timeout=120s >/dev/null
trains wide 4
trains spare 3
scrapes 6

scripts/dashboard_picture.py "$svg" --prometheus "http://127.0.0.1:$port" --scrape "$scrape" \
  --minutes $(((SECONDS - started) / 60 + 1))
