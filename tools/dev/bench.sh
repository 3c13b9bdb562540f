#!/usr/bin/env bash
# Measures, prints, asserts nothing. On a machine with an NVIDIA driver add --real. `./dev bench shim` measures the shim alone.
. tools/dev/common.sh

need build test
build_preset release
for program in build/release/bench/*; do
  if [ -f "$program" ] && [ -x "$program" ]; then
    say "== $(basename "$program")"
    "$program"
  fi
done
exec python3 bench/bench.py "$@"
