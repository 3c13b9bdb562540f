#!/usr/bin/env bash
# Measures and prints; the exit status is 1 where a bar of the page in the browser is missed. On a
# machine with an NVIDIA driver add --real. `./dev bench shim` measures the shim alone, `./dev bench
# --help` names the others.
. tools/dev/common.sh

need build test
case " $* " in *" --help "* | *" -h "*) ;; *) build_preset release ;; esac
exec python3 bench/bench.py "$@"
