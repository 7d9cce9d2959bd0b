#!/usr/bin/env bash
# Builds the missing container images of the kind tests, with podman, inside `sandbox.sh --network`.
#
#   prepare.sh debian      docker.io/library/debian:12, from debootstrap: the Dockerfiles start from that name
#   prepare.sh node        a node of kind with the pinned Kubernetes
#   prepare.sh lockstep    the operator and the trainer by their Dockerfiles, from this working tree; the CUDA variant of
#                          stand-ins from LOCKSTEP_KIND_CUDA_IMAGE, or where build/release has them
#   prepare.sh baseline    the operator of the commit in tests/compat/BASELINE, and its chart
#   prepare.sh gpu         NVIDIA's device plugin over the mock of NVML
#   prepare.sh cuda        the CUDA variant of the trainer by its Dockerfile, and by containers/build-images.sh; it
#                          downloads NVIDIA's compiler and libraries (1.2 GB)
#
# Archives for `kind load image-archive` go to images/ in the cache.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=tests/kind/layout.sh
source "$here/layout.sh"
archives=$kind_state/images
engine=${LOCKSTEP_KIND_ENGINE:-podman}
mkdir -p "$archives"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints one line for a build, and the output of podman only if it fails.
quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    echo "prepare.sh: $* failed (its last lines are above)" >&2
    exit 1
  fi
}

has() { "$engine" image inspect "$1" >/dev/null 2>&1; }

# save NAME...: writes each image as one archive, again if the image has changed.
save() {
  local name id file
  for name in "$@"; do
    file=$archives/$(basename "${name%%:*}")-${name##*:}.tar
    id=$("$engine" image inspect --format '{{.Id}}' "$name")
    if [ "$(cat "$file.id" 2>/dev/null)" != "$id" ] || [ ! -e "$file" ]; then
      rm -f "$file" "$file.id"
      quietly "$engine" save -o "$file" "$name"
      echo "$id" >"$file.id"
    fi
    printf "%-60s %6s MiB\n" "$name" "$(du -m --apparent-size "$file" | cut -f1)"
  done
}

make_debian() {
  if has docker.io/library/debian:12 || [ "$engine" = docker ]; then return; fi
  local from
  from=$("$here/mirror.sh")
  quietly debootstrap --variant=minbase bookworm "$work/debian" "$from"
  printf 'deb %s %s main\n' "$from" bookworm "$from" bookworm-updates "${from%/debian}/debian-security" bookworm-security \
    >"$work/debian/etc/apt/sources.list"
  tar -C "$work/debian" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' --exclude='./dev/*' --exclude='./proc/*' \
    --exclude='./sys/*' -cf "$work/debian.tar" .
  quietly podman import -c 'CMD ["bash"]' "$work/debian.tar" docker.io/library/debian:12
}

# build DOCKERFILE NAME CONTEXT [FLAG...]
build() {
  local flags=(--network=host "${@:4}")
  if [ "$engine" = podman ]; then flags+=(--pull=never); fi
  quietly "$engine" build "${flags[@]}" -f "$1" -t "$2" "$3"
}

# system_image NAME FILE ARGUMENTS...: an image of the cluster, as an archive in the node's folder of images
system_image() {
  local name=$1 file=$2
  shift 2
  "$root/tests/cluster/image" --name "$name" --out "$work/node/images/$file.tar" --env PATH=/usr/local/sbin:/usr/local/bin:/usr/bin:/bin "$@"
}

make_node() {
  local cluster bin version name pins
  cluster=$("$root/tests/cluster/binaries.sh" | tail -n 1)
  bin=$("$here/binaries.sh" kubeadm | tail -n 1)
  pins=$({
    declare -f make_node system_image
    cat "$bin/kubeadm" "$cluster/kubelet" "$cluster/coredns"
    find "$here/node" -type f -print0 | sort -z | xargs -0 cat
  } | sha256sum | cut -c1-12)
  version=$("$bin/kubeadm" version -o short)
  name=docker.io/lockstep/kind-node:$version-$pins
  if ! has "$name"; then
    make_debian
    mkdir -p "$work/node/programs" "$work/node/images/node" "$work/node/images/control-plane" "$work/proxy"
    cp -r "$here/node/." "$work/node/"
    cp "$bin/kubeadm" "$cluster/kubelet" "$cluster/kubectl" "$work/node/programs/"
    printf '%s' "$version" >"$work/node/version"
    # kubeadm prints the names of its images.
    local wanted etcd coredns pause
    wanted=$("$bin/kubeadm" config images list --kubernetes-version "$version" 2>/dev/null)
    etcd=$(grep /etcd: <<<"$wanted") coredns=$(grep coredns <<<"$wanted") pause=$(grep pause <<<"$wanted")
    for name in kube-apiserver kube-controller-manager kube-scheduler; do
      system_image "registry.k8s.io/$name:$version" "control-plane/$name" --file "$cluster/$name:/usr/local/bin/$name"
    done
    "$root/containers/collect.sh" "$work/proxy" "$cluster/kube-proxy:/usr/local/bin/kube-proxy" "$(command -v nft):/usr/sbin/nft"
    system_image "registry.k8s.io/kube-proxy:$version" node/kube-proxy --tree "$work/proxy" --env PATH=/usr/local/bin:/usr/sbin
    system_image "$etcd" control-plane/etcd --file "$cluster/etcd:/usr/local/bin/etcd"
    system_image "$coredns" node/coredns --file "$cluster/coredns:/coredns" --entrypoint /coredns
    gcc -static -Os -s -o "$work/pause" "$root/tests/cluster/images/pause.c"
    system_image "$pause" node/pause --file "$work/pause:/pause" --entrypoint /pause
    sed -i "s#registry.k8s.io/pause:[0-9.]*#$pause#" "$work/node/files/etc/containerd/config.toml"
    name=docker.io/lockstep/kind-node:$version-$pins
    build "$work/node/Dockerfile" "$name" "$work/node"
    podman images --format '{{.Repository}}:{{.Tag}}' docker.io/lockstep/kind-node | { grep -v ":$version-$pins$" || true; } |
      while read -r old; do podman rmi -f "$old" >/dev/null; done
  fi
  echo "$name" >"$kind_state/node-image"
  printf '%-60s %6s MiB\n' "$name" "$(($(podman image inspect --format '{{.Size}}' "$name") >> 20))"
}

# share FOLDER ID: binds a folder of the host to where buildah keeps the cache mount ID of the Dockerfiles.
share() {
  if [ "$engine" = docker ]; then return; fi
  if mountpoint -q "$TMPDIR/buildah-cache/$2"; then return; fi
  mkdir -p "$TMPDIR/buildah-cache/$2" "$1"
  mount --bind "$1" "$TMPDIR/buildah-cache/$2"
}

# Compiler and flags are the same, so the images compile nothing that `make build` has compiled.
share_compiler_cache() { share "${CCACHE_DIR:-$cache/ccache}" lockstep-ccache; }

make_lockstep() {
  make_debian
  share_compiler_cache
  local name
  # Each build leaves its stages behind; those of yesterday serve as no cache.
  if [ "$engine" = podman ]; then podman image prune --force --filter until=24h >/dev/null; fi
  for name in operator trainer; do build "$root/containers/$name.Dockerfile" "docker.io/lockstep/$name:dev" "$root"; done
  save docker.io/lockstep/operator:dev docker.io/lockstep/trainer:dev
  # The CUDA variant of stand-ins, where the host has built them.
  rm -f "$archives/trainer-cuda.tar"
  if [ -n "${LOCKSTEP_KIND_CUDA_IMAGE:-}" ]; then
    cp "$LOCKSTEP_KIND_CUDA_IMAGE" "$archives/trainer-cuda.tar"
  elif [ -x "$root/build/release/tests/bin/lockstep-trainer-cuda" ]; then
    "$root/tests/e2e/programs/cuda_image.sh" "$root/build/release" "$archives" | tail -n 1
  fi
}

# Makes the image of the operator and its agent alone: the trainer's image is the user's. The build on the host finds
# in the compiler's cache what tests/compat has compiled of the same commit.
make_baseline() {
  local commit made
  commit=$(tr -d '[:space:]' <"$root/tests/compat/BASELINE")
  made="$commit $(sha256sum <"$root/containers/collect.sh" | cut -c1-12)"
  if [ "$(cat "$kind_state/baseline" 2>/dev/null)" != "$made" ]; then
    rm -rf "$kind_state/baseline" "$kind_state/baseline-chart" "$archives"/*-baseline*
    if ! git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null; then
      echo "prepare.sh: the commit $commit of tests/compat/BASELINE is not in this clone; fetch it: git fetch --unshallow" >&2
      return
    fi
    mkdir "$work/baseline"
    git -C "$root" archive "$commit" | tar -x -C "$work/baseline"
    if [ "$engine" = docker ]; then
      build "$root/containers/operator.Dockerfile" docker.io/lockstep/operator:baseline "$work/baseline"
      save docker.io/lockstep/operator:baseline
    else
      quietly "$work/baseline/scripts/build.sh" release build/release "$(nproc)" lockstep-operator lockstep-agent
      quietly "$root/containers/build-images.sh" "$work/baseline/build/release" "$work" baseline operator
      mv "$work/operator.tar" "$archives/operator-baseline.tar"
    fi
    cp -r "$work/baseline/charts/lockstep" "$kind_state/baseline-chart"
    echo "$made" >"$kind_state/baseline"
  fi
  printf '%-60s %6s MiB\n' docker.io/lockstep/operator:baseline "$(du -m --apparent-size "$archives/operator-baseline.tar" | cut -f1)"
}

# The toolkit has a folder of its own here: where the build looks for one, its presence would turn LOCKSTEP_CUDA=AUTO
# on.
make_cuda() {
  make_debian
  share_compiler_cache
  share "$kind_state/cuda/lockstep" lockstep-cuda
  export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
  local name=docker.io/lockstep/trainer:dev-cuda
  # Here pip is set up for this machine's network, and not in the container.
  XDG_CACHE_HOME=$kind_state/cuda quietly "$root/scripts/cuda-toolkit.sh"
  XDG_CACHE_HOME=$kind_state/cuda quietly "$root/scripts/cuda-toolkit.sh" --runtime
  XDG_CACHE_HOME=$kind_state/cuda quietly "$root/scripts/build.sh" cuda build/cuda-image "$(nproc)" lockstep-trainer
  build "$root/containers/trainer.Dockerfile" "$name" "$root" --target cuda
  printf '%-60s %6s MiB\n' "$name" "$(($("$engine" image inspect --format '{{.Size}}' "$name") >> 20))"
  XDG_CACHE_HOME=$kind_state/cuda "$root/containers/build-images.sh" "$root/build/cuda-image" "$kind_state/cuda" dev trainer-cuda
}

make_gpu() {
  local bin
  bin=$("$here/binaries.sh" nvidia-device-plugin | tail -n 1)
  gcc -std=gnu17 -O1 -g -Wall -Wextra -shared -fPIC -fvisibility=hidden -o "$work/libnvidia-ml.so.1" "$here/mock_nvml/mock_nvml.c"
  gcc -O1 -Wall -Wextra -o "$work/list_gpus" "$here/mock_nvml/list_gpus.c"
  "$root/containers/collect.sh" "$work/gpu" "$bin/nvidia-device-plugin:/usr/bin/nvidia-device-plugin" "$work/list_gpus:/usr/bin/list_gpus"
  # The folder in which the plugin, and the loader, search the driver's libraries.
  install -D "$work/libnvidia-ml.so.1" "$work/gpu/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
  "$root/tests/cluster/image" --name docker.io/lockstep/nvidia-device-plugin:mock --tree "$work/gpu" --entrypoint /usr/bin/nvidia-device-plugin \
    --out "$archives/nvidia-device-plugin-mock.tar"
  "$root/tests/cluster/image" --name docker.io/lockstep/busybox:test --file "$(command -v busybox):/bin/busybox:0755" \
    --file "$(command -v busybox):/bin/sh:0755" --out "$archives/busybox-test.tar"
}

for what in "$@"; do
  begun=$SECONDS
  "make_$what"
  printf 'prepare: %s in %d s\n' "$what" $((SECONDS - begun))
done
