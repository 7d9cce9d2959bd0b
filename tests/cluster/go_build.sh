# shellcheck shell=bash
# Sourced by the scripts that build programs from the Go module proxy: finds a Go, and builds one program with it.
#
# They set `cache` (the folder for downloads and builds) beforehand.
# shellcheck disable=SC2154
go_toolchain=go1.26.8

find_go() {
  # A Go that is new enough, the pinned toolchain from the module proxy otherwise (Debian 12's own Go fetches it).
  local found version
  found=$(command -v go || true)
  [ -n "$found" ] || { [ -x /usr/local/go/bin/go ] && found=/usr/local/go/bin/go; } || true
  [ -n "$found" ] || { echo "${0##*/}: no 'go' on this machine; run 'make setup', or: apt-get install golang-go" >&2; exit 1; }
  version=$(GOTOOLCHAIN=local "$found" env GOVERSION)
  if [ "$(printf '%s\n%s\n' "$go_toolchain" "$version" | sort -V | head -n 1)" = "$go_toolchain" ]; then
    echo "$found"
    return
  fi
  local root=$cache/toolchain/$go_toolchain
  mkdir -p "$(dirname "$root")"
  exec 8>"$root.lock"  # of this subshell; the scripts that call it have locks of their own
  flock 8
  if [ ! -x "$root/bin/go" ]; then
    echo "  go        $version is older than $go_toolchain: fetching that toolchain" >&2
    local work dir
    work=$(mktemp -d)
    printf 'module fetch\n\ngo 1.19\n' >"$work/go.mod"
    dir=$(cd "$work" && GOFLAGS=-mod=mod "$found" mod download -json "golang.org/toolchain@v0.0.1-$go_toolchain.linux-amd64" |
      sed -n 's/^[[:space:]]*"Dir": "\(.*\)",\{0,1\}$/\1/p')
    [ -d "$dir" ] || { echo "${0##*/}: $go_toolchain could not be fetched from the Go module proxy; is the network there?" >&2; exit 1; }
    rm -rf "$root" "$root.part"  # of a copy that was killed
    # The module cache is read-only and its files are not executable: copy the toolchain out first.
    cp -r "$dir" "$root.part"
    chmod -R u+w "$root.part"
    chmod -R +x "$root.part/bin" "$root.part/pkg/tool"
    mv "$root.part" "$root"
    rm -rf "$work"
  fi
  echo "$root/bin/go"
}

# The version that a go.mod requires of a module.
version_of() { awk -v m="$1" '$1 == "require" && $2 == m {print $3; exit} $1 == m && $2 ~ /^v/ {print $2; exit}' "$2"; }

# The output of `--version` of a Kubernetes program.
kubernetes_flags() {
  local version=$1 minor unit
  minor=$(cut -d. -f2 <<<"$version")
  for unit in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s' "$unit" "$version" "$unit" "$unit" "$minor"
    printf ' -X %s.gitTreeState=clean -X %s.buildDate=1970-01-01T00:00:00Z' "$unit" "$unit"
  done
}

# build_go_program NAME MODULE_FOLDER PACKAGE OUT [LINKER_FLAGS]: builds OUT, whole or not at all, and says how long it
# took.
go_program=
build_go_program() {
  local name=$1 module=$2 package=$3 out=$4 flags="-s -w ${5:-}" started=$SECONDS
  if [ -z "$go_program" ]; then
    go_program=$(find_go)
    export GOFLAGS="-mod=readonly -buildvcs=false" GOTOOLCHAIN=local CGO_ENABLED=${CGO_ENABLED:-0}
    export GOMODCACHE=$cache/go/mod GOCACHE=$cache/go/build
  fi
  printf '  %-25s building\n' "$name" >&2
  (cd "$module" && "$go_program" build -trimpath -tags selinux,notest,grpcnotrace -ldflags "$flags" -o "$out.part" "$package")
  mv "$out.part" "$out"
  printf '  %-25s built in %d s\n' "$name" $((SECONDS - started)) >&2
}
