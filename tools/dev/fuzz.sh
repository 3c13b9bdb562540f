#!/usr/bin/env bash
# Each fuzz target for a while, JOBS (one a processor) at a time, from its seeds in tests/fuzz/NAME and what it reached
# before; a finding stays in build/fuzz/findings. With names, these alone.
. tools/dev/common.sh

seconds=${1:-30}
[[ $seconds =~ ^[0-9]+$ ]] || die "usage: ./dev fuzz [SECONDS [TARGET…]]"
[ $# -eq 0 ] || shift
need build clang
build_preset fuzz "${@:-fuzzers}"
rc=0
python3 -B tools/fuzz_all.py --programs build/fuzz/fuzz --seeds tests/fuzz --corpus build/fuzz/corpus \
  --out build/fuzz/findings --seconds "$seconds" --jobs "${JOBS:-$(nproc)}" "$@" || rc=$?
[ "$rc" = 0 ] || die "something was found; the inputs are in build/fuzz/findings. Mend it, and keep the input in tests/fuzz/NAME"
say "nothing found"
