#!/bin/bash
# compare.sh COMMIT [EVENTS] [SEED]: builds the coordinator's machine of COMMIT beside that of the working tree, and
# drives both with the same random events (main.cpp). Ends with 1 when an answer differs. Environment: OUT is where it
# builds (build/equal_machines), JOBS how many compilers run (2), FLAGS what they are told besides (-O2).
set -euo pipefail
commit=${1:?compare.sh COMMIT [EVENTS] [SEED]}
events=${2:-10000000}
seed=${3:-1}
root=$(cd "$(dirname "$0")/../../../.." && pwd)
here=tests/operator/rendezvous/equal_machines
out=${OUT:-$root/build/equal_machines}
read -ra flags <<<"${FLAGS:--O2}"
cxx=("${CXX:-g++}" -std=c++20 -DFMT_HEADER_ONLY -w "${flags[@]}")
if command -v ccache >/dev/null; then cxx=(ccache "${cxx[@]}"); fi

# The machine of that commit is in another namespace. Both share all that is not of this room.
old=$out/before
rm -rf "$old" "$out/objects" && mkdir -p "$old/$here" "$out/objects"
git -C "$root" archive "$commit" operator/rendezvous | tar -x -C "$old"
cp "$root/$here/driven_machine.cpp" "$old/$here/"
find "$old" -type f \( -name '*.h' -o -name '*.cpp' \) -exec sed -i \
  -e 's/namespace lockstep::rendezvous\b/namespace lockstep::rendezvous_before/' \
  -e 's/std::make_unique<rendezvous::Driven>/std::make_unique<rendezvous_before::Driven>/' {} +

compile() { # SOURCE OBJECT [FLAG...]
  echo "${cxx[*]} ${*:3} -I$root -c $1 -o $out/objects/$2.o"
}
# What the machine is made of: all of the room but sockets, threads and the member's half.
compile_machine() { # FOLDER NAME [FLAG...]
  for source in "$1"/operator/rendezvous/*.cpp; do
    case $(basename "$source" .cpp) in
      session | connections | token_checks | coordinator_server | certificates) ;;
      member_* | worker_contract | agent_codec | coordinator_codec) ;;
      *) compile "$source" "$2_$(basename "$source" .cpp)" "${@:3}" ;;
    esac
  done
  compile "$1/$here/driven_machine.cpp" "$2_driven_machine" -DMAKE_MACHINE="machine_$2" "${@:3}"
}
{
  compile_machine "$old" before "-I$old"
  compile_machine "$root" now
  compile "$root/$here/main.cpp" main
  compile "$root/$here/random_events.cpp" random_events
  compile "$root/operator/api/cause.cpp" cause
} | xargs -P "${JOBS:-2}" -I{} bash -c '{}'
"${cxx[@]}" "$out"/objects/*.o -lcrypto -o "$out/equal_machines"
"$out/equal_machines" "$events" "$seed"
