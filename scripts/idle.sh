#!/usr/bin/env bash
# Runs a command with the processor time and the disk time that nothing else wants:  scripts/idle.sh COMMAND [ARGUMENT...]
set -euo pipefail
# A session of its own would get its share of the processors whatever its processes' class is, where the kernel groups by sessions.
{ echo 19 >/proc/self/autogroup; } 2>/dev/null || true
exec ionice -c 3 chrt --idle 0 "$@"
