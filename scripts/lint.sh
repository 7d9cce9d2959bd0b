#!/usr/bin/env bash
# clang-format, clang-tidy, helm lint and shellcheck over the whole tree; prints the findings and ends with 1 if there are any.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
failed=0

say() { printf 'lint: %-12s %s\n' "$1" "$2"; }

mapfile -t code < <(git ls-files '*.h' '*.cpp' '*.c' '*.cu')
if clang-format --dry-run -Werror "${code[@]}" 2>/tmp/lockstep-lint.$$; then
  say clang-format "${#code[@]} files are formatted"
else
  grep -oE '^[^:]+' /tmp/lockstep-lint.$$ | sort | uniq -c | sort -rn | head -n 20
  say clang-format "files above differ; run: git ls-files '*.h' '*.cpp' '*.c' '*.cu' | xargs clang-format -i"
  failed=1
fi
rm -f /tmp/lockstep-lint.$$

mapfile -t shell < <(git ls-files | xargs grep -lE '^#!/(usr/bin/env bash|bin/(ba)?sh)' 2>/dev/null)
if shellcheck -x "${shell[@]}"; then say shellcheck "${#shell[@]} scripts are clean"; else failed=1; fi

helm=$(tests/cluster/binaries.sh helm)/helm
if "$helm" lint --quiet charts/lockstep; then say helm "charts/lockstep is clean"; else failed=1; fi

scripts/build.sh release build/release "$(nproc)" || exit 1
# The units of the build, mostly whole rooms: so clang-tidy reads a header once and not a hundred times.
mapfile -t units < <(python3 -c 'import json, re
for entry in json.load(open("build/release/compile_commands.json")):
    if re.search(r"/(operator|trainer)/", entry["file"]) and "/tests/" not in entry["file"]:
        print(entry["file"])' | sort -u)
findings=$(mktemp)
trap 'rm -f "$findings"' EXIT
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build/release --quiet >"$findings" 2>&1
if grep -qE 'warning:|error:' "$findings"; then
  grep -E 'warning:|error:' "$findings" | sort -u | head -n 60
  say clang-tidy "$(grep -E 'warning:|error:' "$findings" | sort -u | wc -l) findings"
  failed=1
else
  say clang-tidy "${#units[@]} translation units are clean"
fi
exit $failed
