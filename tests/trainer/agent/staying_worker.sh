#!/bin/bash
# A worker that keeps its memory, as far as its agent can tell: it speaks the link (operator/rendezvous/worker_contract.h)
# and holds step 7 of generation 1. Its rank as the first argument makes it mute: it does not answer a regroup.
say() { echo "$1" >&"$LOCKSTEP_AGENT_FD"; }
number() {
  rest=${line#*\""$1"\":}
  echo "${rest%%[,\}]*}"
}
echo "$RANK $LOCKSTEP_GENERATION $$" >>"$OUT"
echo "starts in $LOCKSTEP_GENERATION with the state of '$LOCKSTEP_STATE_SOURCE'"
say '{"up":{"regroups":true}}'
while read -r line <&"$LOCKSTEP_AGENT_FD"; do
  case $line in
    *regroup*)
      [ "$RANK" = "$1" ] && continue
      say "{\"holding\":{\"term\":$(number term),\"generation\":$(number generation),\"stateGeneration\":1,\"step\":7,\"digest\":\"ab\"}}"
      ;;
    *join*)
      echo "goes on in $(number generation) as rank $(number rank) from rank $(number sourceRank) send $(number send)"
      say '{"up":{"regroups":true}}'
      ;;
    *stop*) exit 83 ;;
  esac
done
