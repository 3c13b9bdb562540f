#!/usr/bin/env bash
# All tests of the shim that need a GPU and its frameworks.
# Usage: tests/gpu/shim_session.sh [BUILD_DIR [OUT_DIR [PART…]]]
#
# PARTs: calls limits mps race compare (all when none is named). Writes OUT_DIR/report.md (the tables), results.jsonl
# (one line an answer) and session.log (all other output); prints the report last; exit status 0 if every part passed.
# With the defaults it takes under eight minutes on one GPU, at most 40 GiB of it, and managed memory only in small
# pieces; it changes no setting of the device. BUILD_DIR may come from tests/gpu/pack.sh.
#
# ROUNDS (6) of compare, RACE_SECONDS (60), PEERS: more libraries to measure, as "NAME=LIBRARY[,SERVER] …". On the
# simulated driver (gpuman-sim exec -- …) the parts that need a framework use the driver alone.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
out=${2:-$build/shim-session}
shift $(($# < 2 ? $# : 2))
parts=${*:-calls limits mps race compare}
mkdir -p "$out"
out=$(readlink -f "$out")
here=$root/tests/gpu
export GPUMAN_BUILD_DIR=$build PYTHONDONTWRITEBYTECODE=1
log=$out/session.log results=$out/results.jsonl report=$out/report.md
rm -f "$log" "$results"
for file in tests/ledger_server tests/race_load bench/shim/shim_calls lib/libgpuman.so; do
  if [ ! -f "$build/$file" ]; then
    echo "shim_session.sh: no $file in $build" >&2
    exit 2
  fi
done
simulated=${GPUMAN_SIM_DIR:-}
read -ra peers <<<"${PEERS:-}"
peer_options=()
for peer in "${peers[@]}"; do peer_options+=(--peer "$peer"); done
failed=0
verdicts=()

# part NAME SECONDS COMMAND…: the output of the command is a part of the report.
part() {
  local name=$1 limit=$2 start=$SECONDS status
  shift 2
  echo "== $name: $*" >>"$log"
  {
    echo
    echo "## $name"
    echo
    timeout -k 10 "$limit" "$@" 2>>"$log"
    status=$?
    echo
  } >>"$report"
  case $status in
    0) verdicts+=("| $name | ok | $((SECONDS - start)) |") ;;
    77) verdicts+=("| $name | not here | $((SECONDS - start)) |") ;;
    *)
      verdicts+=("| $name | FAILED ($status) | $((SECONDS - start)) |")
      failed=1
      ;;
  esac
}

machine() {
  echo "# The shim on this machine"
  echo
  echo '```'
  date -u +%Y-%m-%dT%H:%M:%SZ
  [ -z "$simulated" ] || echo "the simulated driver"
  uname -srm
  nproc
  nvidia-smi --query-gpu=index,name,driver_version,memory.total,memory.used,compute_mode --format=csv 2>&1
  python3 -c 'import torch; print("torch", torch.__version__)' 2>&1 | tail -n 1
  echo '```'
}

calls() {
  part "calls, a driver that does nothing" 90 python3 "$root/bench/bench.py" shim --rounds 7 --json "$results" \
    "${peer_options[@]}"
  [ -n "$simulated" ] || part "calls, the real driver" 120 python3 "$root/bench/bench.py" shim --real --rounds 5 \
    --blocks 25 --json "$results"
}

limits() {
  local names=() runtime=()
  if [ -n "$simulated" ]; then
    names=(driver)
  elif command -v nvcc >/dev/null; then
    nvcc -O1 -o "$build/tests/runtime_limit" "$here/frameworks/runtime_limit.cu" >>"$log" 2>&1 &&
      runtime=(--runtime "$build/tests/runtime_limit")
  fi
  part limits 180 python3 "$here/frameworks/limits.py" --json "$results" --parallel 5 "${runtime[@]}" "${names[@]}"
}

mps() {
  part "limits under MPS" 90 "$here/frameworks/mps.sh" python3 "$here/frameworks/limits.py" --json "$results" torch
}

race() {
  local seconds=${RACE_SECONDS:-60}
  part "race, everything but pools" $((seconds + 60)) python3 "$here/race.py" --seconds "$seconds" --json "$results" \
    --families malloc,pitch,managed,vmm,array,mipmap
  part "race, pools too" $((seconds / 3 + 60)) python3 "$here/race.py" --seconds $((seconds / 3)) --json "$results"
}

compare() {
  local command=("$here/frameworks/torch_work.py") rounds=${ROUNDS:-6}
  [ -z "$simulated" ] || command=("$here/frameworks/driver_work.py")
  part compare 330 python3 "$here/frameworks/compare.py" --rounds "$rounds" --json "$results" "${peer_options[@]}" \
    "${command[@]}"
}

machine >"$report"
for name in $parts; do
  case $name in
    calls) calls ;;
    limits) limits ;;
    mps) mps ;;
    race) race ;;
    compare) compare ;;
    *) echo "shim_session.sh: no part '$name'" >&2; exit 2 ;;
  esac
done
{
  echo
  echo "| part | result | s |"
  echo "| --- | --- | --- |"
  printf '%s\n' "${verdicts[@]}"
} >>"$report"
cat "$report"
exit $failed
