#!/bin/bash
# A worker that keeps its memory, as far as its agent can tell. It speaks the link
# (operator/rendezvous/worker_contract.h) and holds step 7 of generation 1 once it was in a generation. Its rank as the
# first argument makes it mute: then it answers no further regroup.
say() { echo "$1" >&"$LOCKSTEP_AGENT_FD"; }
number() {
  rest=${line#*\""$1"\":}
  echo "${rest%%[,\}]*}"
}
starts() {
  echo "$1 $2 $$" >>"$OUT"
  echo "starts in $2 with the state of '$LOCKSTEP_STATE_SOURCE'"
}
version='"stateGeneration":0,"step":0,"digest":""'
joined=
enters() {
  version='"stateGeneration":1,"step":7,"digest":"ab"'
  joined=yes
}
if [ -z "$LOCKSTEP_STANDBY" ]; then
  starts "$RANK" "$LOCKSTEP_GENERATION"
  enters
fi
say '{"up":{"regroups":true}}'
while read -r line <&"$LOCKSTEP_AGENT_FD"; do
  case $line in
    *regroup*)
      [ -n "$joined" ] && [ "$RANK" = "$1" ] && continue
      say "{\"holding\":{\"term\":$(number term),\"generation\":$(number generation),$version}}"
      ;;
    *join*)
      if [ -z "$joined" ]; then
        starts "$(number rank)" "$(number generation)"
        enters
      else
        echo "goes on in $(number generation) as rank $(number rank) from rank $(number sourceRank) send $(number send)"
      fi
      say '{"up":{"regroups":true}}'
      ;;
    *stop*) exit 83 ;;
  esac
done
