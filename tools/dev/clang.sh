#!/usr/bin/env bash
# Everything once with clang: its warnings are errors, and each fuzz target runs for a while (10 s, or SECONDS).
# --if-there: only where clang is installed, and for at most GPUMAN_CLANG_MINUTES (30); what is not done by then is
# done by the next run, from the compiler's cache; what has failed by then is a failure. The last line says what was run.
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

# left_off RC: whether it was the limit that ended a step, and not the step itself.
left_off() { [[ $1 =~ ^(124|137)$ ]] && [ $if_there = yes ] && [ $((SECONDS - started)) -ge $((minutes * 60)) ]; }

# failed_before LOG: whether the build of LOG, or a fuzz target, had failed when the limit came: ninja goes on with what
# it has begun, and the other targets are fuzzed to their end.
failed_before() {
  if grep -sq '^FAILED: ' "$1"; then
    say "clang: the build had failed when its time was over; its output: $1"
    return 0
  fi
  local inputs
  inputs=$(find build/fuzz/findings -maxdepth 1 -type f -newer build/log/clang-began -name '*_fuzz-*' 2>/dev/null || true)
  [ -n "$inputs" ] || return 1
  say "clang: something was found when the time was over: $(xargs <<<"$inputs")"
}

mkdir -p build/log
touch -d '1 second ago' build/log/clang-began  # times of files are coarse
for step in "build.sh ninja-clang" "fuzz.sh $seconds"; do
  rc=0
  case $step in build.sh*) log=build/log/build-ninja-clang.log ;; *) log=build/log/build-fuzz.log ;; esac
  rm -f "$log"
  # shellcheck disable=SC2086
  within bash tools/dev/$step || rc=$?
  if left_off $rc; then
    if failed_before $log; then exit 1; fi
    say "clang: not whole after $minutes minutes, at ${step%% *}; ./dev clang has no limit"
    exit 0
  fi
  [ $rc = 0 ] || exit $rc
done
say "clang: everything built, each parser fuzzed for $seconds s, in $((SECONDS - started)) s"
