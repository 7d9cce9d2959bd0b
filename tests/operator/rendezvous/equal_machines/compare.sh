#!/bin/bash
# compare.sh COMMIT [EVENTS] [SEED]: builds the machines of COMMIT, the coordinator's and the agent's, beside those of
# the working tree. Drives both versions with the same random events (main.cpp). Ends with 1 when an answer differs.
# Environment: MACHINES which are driven (coordinator agent), OUT where it builds (build/equal_machines), JOBS how many
# compilers run (2), FLAGS what they are told besides (-O2).
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
cp "$root/$here"/driven_*.cpp "$root/$here/trace.h" "$old/$here/"
find "$old" -type f \( -name '*.h' -o -name '*.cpp' \) -exec sed -i \
  -e 's/namespace lockstep::rendezvous\b/namespace lockstep::rendezvous_before/' \
  -e 's/std::make_unique<rendezvous::Driven/std::make_unique<rendezvous_before::Driven/' {} +

compile() { # SOURCE OBJECT [FLAG...]
  echo "${cxx[*]} ${*:3} -I$root -c $1 -o $out/objects/$2.o"
}
# What the machines are made of: all of the room but sockets, threads and what reads and writes messages.
compile_machines() { # FOLDER NAME [FLAG...]
  for source in "$1"/operator/rendezvous/*.cpp; do
    case $(basename "$source" .cpp) in
      session | connections | token_checks | coordinator_server | certificates) ;;
      worker_contract | agent_codec | coordinator_codec) ;;
      *) compile "$source" "$2_$(basename "$source" .cpp)" "${@:3}" ;;
    esac
  done
  compile "$1/$here/driven_machine.cpp" "$2_driven_machine" -DMAKE_MACHINE="machine_$2" "${@:3}"
  compile "$1/$here/driven_member.cpp" "$2_driven_member" -DMAKE_MEMBER="member_$2" "${@:3}"
}
{
  compile_machines "$old" before "-I$old"
  compile_machines "$root" now
  compile "$root/$here/main.cpp" main
  compile "$root/$here/random_events.cpp" random_events
  compile "$root/$here/random_member.cpp" random_member
  compile "$root/operator/api/cause.cpp" cause
} | xargs -P "${JOBS:-2}" -I{} bash -c '{}'
"${cxx[@]}" "$out"/objects/*.o -lcrypto -o "$out/equal_machines"
for machine in ${MACHINES:-coordinator agent}; do "$out/equal_machines" "$machine" "$events" "$seed"; done
