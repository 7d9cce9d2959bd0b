module lockstep.dev/tests/bench/probe

go 1.26.0
