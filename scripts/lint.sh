#!/usr/bin/env bash
# Prints what checkers find in the whole tree, and ends with 1 if they find anything.
#
#   scripts/lint.sh                 clang-format, shellcheck, helm lint and clang-tidy, which needs a build (minutes)
#   scripts/lint.sh --quick         the first two alone (seconds); the suite `structure` runs this
#   scripts/lint.sh --quick FILE... the same for these files
set -uo pipefail
quick=false
given=()
if [ "${1:-}" = --quick ]; then
  quick=true
  given=("${@:2}")
  for i in "${!given[@]}"; do given[i]=$(realpath "${given[i]}"); done
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0
for program in clang-format shellcheck; do
  command -v "$program" >/dev/null || { echo "lint: $program is missing; run: scripts/setup.sh test" >&2; exit 1; }
done

say() { printf 'lint: %-12s %s\n' "$1" "$2"; }
# Runs a checker over the files of its input, MOST at a time, on all cores: over MOST CHECKER...
over() {
  local most=$1 checker=("${@:2}")
  tr '\n' '\0' | xargs -0 -r -P "$(nproc)" -n "$most" "${checker[@]}"
}
lines() { [ $# -eq 0 ] || printf '%s\n' "$@"; }

[ ${#given[@]} -gt 0 ] || mapfile -t given < <(git -c safe.directory="$PWD" ls-files)
for i in "${!given[@]}"; do [ -e "${given[i]}" ] || unset "given[i]"; done # deleted, and not yet committed
if [ ${#given[@]} -eq 0 ]; then
  say git "lists no file: run this in a checkout"
  exit 1
fi

findings=$(mktemp)
trap 'rm -f "$findings"' EXIT

mapfile -t code < <(lines "${given[@]}" | grep -E '\.(h|cpp|c|cu)$')
if lines "${code[@]}" | over 100 clang-format --dry-run -Werror 2>"$findings"; then
  say clang-format "${#code[@]} files are formatted"
else
  grep -oE '^[^:]+' "$findings" | sort | uniq -c | sort -rn | head -n 20
  say clang-format "files above differ; run: git ls-files '*.h' '*.cpp' '*.c' '*.cu' | xargs clang-format -i"
  failed=1
fi

mapfile -t shell < <(lines "${given[@]}" | over 1000 grep -lE '^#!/(usr/bin/env bash|bin/(ba)?sh)' 2>/dev/null)
if lines "${shell[@]}" | over 20 shellcheck -x; then
  say shellcheck "${#shell[@]} scripts are clean"
else
  failed=1
fi
if $quick; then exit $failed; fi

helm=$(tests/cluster/binaries.sh helm)/helm
if "$helm" lint --quiet charts/lockstep; then say helm "charts/lockstep is clean"; else failed=1; fi

scripts/build.sh release build/release "$(nproc)" || exit 1
# The units of the build, mostly whole rooms: so clang-tidy reads a header once and not a hundred times.
mapfile -t units < <(python3 -c 'import json, re
for entry in json.load(open("build/release/compile_commands.json")):
    if re.search(r"/(operator|trainer)/", entry["file"]) and "/tests/" not in entry["file"]:
        print(entry["file"])' | sort -u)
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build/release --quiet >"$findings" 2>&1
if grep -qE 'warning:|error:' "$findings"; then
  grep -E 'warning:|error:' "$findings" | sort -u | head -n 60
  say clang-tidy "$(grep -E 'warning:|error:' "$findings" | sort -u | wc -l) findings"
  failed=1
else
  say clang-tidy "${#units[@]} translation units are clean"
fi
exit $failed
