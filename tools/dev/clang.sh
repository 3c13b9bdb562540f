#!/usr/bin/env bash
# Everything once with clang: its warnings are errors, and each fuzz target runs for a while (10 s, or SECONDS).
# --if-there: only where clang is installed, and for at most GPUMAN_CLANG_MINUTES (30); what is not done by then is
# done by the next run, from the compiler's cache. The last line says what was run.
. tools/dev/common.sh

if_there=no
if [ "${1:-}" = --if-there ]; then
  if_there=yes
  shift
fi
seconds=${1:-10}
[[ $seconds =~ ^[0-9]+$ ]] || die "usage: ./dev clang [--if-there] [SECONDS]"

if [ $if_there = yes ]; then
  absent=$(missing_of clang | xargs)
  command -v clang++ >/dev/null || absent=${absent:-clang}
  if [ -n "$absent" ]; then
    say "clang: not run, these packages are missing: $absent; ./dev clang installs them"
    exit 0
  fi
fi
need build test clang
started=$SECONDS
minutes=${GPUMAN_CLANG_MINUTES:-30}

# within COMMAND…: in the time that is left; 124 where that is not enough. Without --if-there there is no limit.
within() {
  local left=$((minutes * 60 - (SECONDS - started)))
  if [ $if_there = no ]; then
    "$@"
  elif [ $left -le 0 ]; then
    return 124
  else
    timeout --kill-after=30 "$left" "$@"
  fi
}

for step in "build.sh ninja-clang" "fuzz.sh $seconds"; do
  rc=0
  # shellcheck disable=SC2086
  within bash tools/dev/$step || rc=$?
  if [ $if_there = yes ] && [ $((SECONDS - started)) -ge $((minutes * 60)) ]; then
    say "clang: not whole after $minutes minutes, at ${step%% *}; ./dev clang has no limit"
    exit 0
  fi
  [ $rc = 0 ] || exit $rc
done
say "clang: everything built, each parser fuzzed for $seconds s, in $((SECONDS - started)) s"
