#!/usr/bin/env bash
# Installs the Debian packages for the build and the tests. Takes under a second if all of them are installed.
#
#   scripts/setup.sh build    packages of the build
#   scripts/setup.sh test     the same, and those of the tests and the test cluster
set -euo pipefail

build_packages=(
  ca-certificates git g++ make cmake ninja-build ccache pkg-config         # tools
  libboost-dev libboost-system-dev libssl-dev                         # coordinator, agent
  libcpprest-dev libnghttp2-dev libyaml-cpp-dev nlohmann-json3-dev    # API server, job files
  libfmt-dev libspdlog-dev libcli11-dev prometheus-cpp-dev            # logs, command lines, metrics
  libdnnl-dev                                                         # the trainer's CPU backend
  libturbojpeg0-dev                                                   # the trainer's images
  libprotobuf-dev protobuf-compiler                                   # pods, the trainer's image records
  libgtest-dev libgmock-dev                                           # tests
)
test_packages=(
  python3 python3-pytest python3-yaml python3-venv                    # test runner, tests on the cluster
  containerd runc containernetworking-plugins                         # the nodes of the test cluster
  podman netavark aardvark-dns debootstrap                            # images, and the nodes of kind
  iproute2 iptables nftables conntrack util-linux procps kmod         # their networks
  busybox-static openssl jq curl
  clang-format clang-tidy shellcheck doxygen
)

case "${1:-}" in
  build) wanted=("${build_packages[@]}") ;;
  test) wanted=("${build_packages[@]}" "${test_packages[@]}") ;;
  *)
    sed -n '2,5s/^# \{0,1\}//p' "$0"
    [ "${1:-}" = --help ] || [ "${1:-}" = -h ] && exit 0
    exit 2
    ;;
esac

# The packages and their versions are Debian 12's. LOCKSTEP_OS_RELEASE names another file for a test.
release=${LOCKSTEP_OS_RELEASE:-/etc/os-release}
# shellcheck disable=SC1090,SC1091
system=$(. "$release" 2>/dev/null && echo "${ID:-}${VERSION_ID:+ $VERSION_ID}") || system=
if [ "$system" != "debian 12" ]; then
  echo "setup: Lockstep is built and tested on Debian 12 alone, and this is ${system:-an unknown system}." >&2
  echo "setup: on Debian 13 and Ubuntu 24.04 libraries are newer; use a container of debian:12 (.devcontainer/)." >&2
fi

# Any Go will do: an old one fetches the pinned toolchain. Debian's is installed only if there is none.
if [ "$1" = test ] && ! command -v go >/dev/null && [ ! -x /usr/local/go/bin/go ]; then
  wanted+=(golang-go)
fi

installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package} ' 2>/dev/null | sed 's/  */ /g') "
missing=()
for package in "${wanted[@]}"; do
  [[ $installed == *"ii $package "* ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: these Debian packages are missing, and this machine has no apt-get: ${missing[*]}" >&2
  echo "setup: Lockstep is built on Debian 12; install the same libraries by hand and run cmake directly." >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: ${#missing[@]} Debian packages are missing; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${#missing[@]} Debian packages that the $1 needs${as_root:+ (through sudo)}: ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -qq &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: apt-get failed (its last lines are above). Does the network work, and is this Debian 12?" >&2
  exit 1
fi
# A package of containerd starts the machine's own service; the test cluster has its own, and does not touch that one.
echo "setup: done" >&2
