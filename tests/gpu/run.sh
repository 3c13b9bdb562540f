#!/usr/bin/env bash
# The tests that need a real GPU. Usage: tests/gpu/run.sh [BUILD_DIR [OUT_DIR]]
#
# Writes OUT_DIR/report.md, the full output of each part beside it, and facts.jsonl (the driver's answers where nothing
# is asserted). Prints a table last; exit status 0 if every part passed. Takes under three minutes and at most 4 GiB of
# the device; changes no setting and resets nothing. BUILD_DIR may come from another machine (tests/gpu/pack.sh).
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
out=${2:-$build/gpu-report}
mkdir -p "$out"
out=$(readlink -f "$out")
test=$build/tests/conformance_test
load=$build/bin/gpuman-load
hasher=$build/tests/hasher_test
if [ ! -x "$test" ] || [ ! -x "$load" ]; then
  echo "run.sh: no tests/conformance_test or bin/gpuman-load in $build" >&2
  exit 2
fi
export GPUMAN_FACTS=$out/facts.jsonl
rm -f "$GPUMAN_FACTS" "$out"/*.log

rows=()
failed=0
# row NAME STATUS SECONDS REMARK
row() {
  rows+=("$(printf '| %-28s | %-6s | %5s | %s |' "$1" "$2" "$3" "$4")")
  [ "$2" != FAILED ] || failed=1
}

machine() {
  {
    date -u +%Y-%m-%dT%H:%M:%SZ
    [ -z "${GPUMAN_SIM_DIR:-}" ] || echo "the simulated driver"
    uname -srm
    ldd --version 2>&1 | head -1
    grep -m1 'model name' /proc/cpuinfo
    nvidia-smi --query-gpu=index,name,uuid,driver_version,memory.total,memory.used,compute_mode,mig.mode.current \
      --format=csv
  } >"$out/machine.log" 2>&1
}

# Each suite runs in a process of its own: a crash of the driver costs only that suite.
conformance() {
  local suite start log status counts
  for suite in $("$test" --gtest_list_tests | grep -v '^ ' | tr -d .); do
    start=$SECONDS
    log=$out/conformance.$suite.log
    timeout -k 5 60 "$test" --gtest_filter="$suite.*" --gtest_brief=0 --gtest_color=no >"$log" 2>&1
    status=$?
    counts="$(grep -c '^\[       OK' "$log") passed, $(grep '^\[  FAILED' "$log" | grep -c 'ms)$') failed"
    counts+=", $(grep '^\[  SKIPPED' "$log" | grep -c 'ms)$') skipped"
    case $status in
      0) row "conformance $suite" ok $((SECONDS - start)) "$counts" ;;
      *) row "conformance $suite" FAILED $((SECONDS - start)) "$counts, exit status $status" ;;
    esac
  done
}

# load_case NAME EXPECTED_STATUS ARGUMENTS…: gpuman-load must end with that status.
load_case() {
  local name=$1 expected=$2 start=$SECONDS status
  shift 2
  timeout -k 5 60 "$load" --json "$@" >"$out/load.$name.log" 2>&1
  status=$?
  if [ "$status" = "$expected" ]; then
    row "load $name" ok $((SECONDS - start)) "exit status $status"
  else
    row "load $name" FAILED $((SECONDS - start)) "exit status $status instead of $expected"
  fi
}

loads() {
  local api big=1GiB step=128MiB small=256MiB
  # On the simulated driver, kernels run on the processor.
  [ -z "${GPUMAN_SIM_DIR:-}" ] || big=16MiB step=2MiB small=4MiB
  for api in malloc async vmm pitch array; do
    load_case "$api" 0 --api "$api" --alloc $big --step $step --verify --iterations 5 --kernel-time 20ms
  done
  load_case managed 0 --api managed --alloc 16MiB --verify --iterations 3
  load_case flipped 4 --alloc $small --verify --iterations 2 --flip-byte 12345
  load_case out-of-memory 3 --alloc 100% --step 100% --verify
  load_case managed-refused 3 --api managed --alloc 100%
  load_case children 0 --children 3 --alloc $small --verify --iterations 3 --kernel-time 20ms
  load_case daemons 0 --children 2 --daemonize --alloc $small --verify --iterations 3
  for api in vmm ipc host; do
    load_case "ranks-$api" 0 --ranks 2 --peer $api --work 5ms --verify --iterations 20
  done
  load_case duty 0 --alloc 64MiB --kernel-time 20ms --duty 0.25 --hold 2s
}

# The mover's kernel: whether this GPU hashes as the processor does.
hashes() {
  local start=$SECONDS status
  if [ ! -x "$hasher" ]; then
    row hasher skipped 0 "no tests/hasher_test in $build"
    return
  fi
  timeout -k 5 60 "$hasher" --gtest_filter="HasherTest.*" --gtest_color=no >"$out/hasher.log" 2>&1
  status=$?
  if [ $status = 0 ]; then
    row hasher ok $((SECONDS - start)) "$(grep -c '^\[       OK' "$out/hasher.log") passed"
  else
    row hasher FAILED $((SECONDS - start)) "exit status $status"
  fi
}

machine
conformance
loads
hashes

{
  echo "# On a real GPU"
  echo
  echo '```'
  cat "$out/machine.log"
  echo '```'
  echo
  echo "| part                         | result | s     | remark |"
  echo "| ---------------------------- | ------ | ----- | ------ |"
  printf '%s\n' "${rows[@]}"
  echo
  echo "## What failed"
  echo
  echo '```'
  grep -sh -B1 -A12 -E ': Failure$' "$out"/conformance.*.log "$out"/hasher.log | head -400
  echo '```'
  echo
  echo "## Facts"
  echo
  echo '```'
  grep -h '^FACT ' "$out"/conformance.*.log | sort -u
  echo '```'
} >"$out/report.md"

sed -n '/^| part/,/^$/p' "$out/report.md"
exit $failed
