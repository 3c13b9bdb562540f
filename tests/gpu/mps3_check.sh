#!/usr/bin/env bash
# Compares the answers of the real nvidia-cuda-mps-control by protocol 3 (driver 615 and later) with what src/mps
# expects. mps_check.sh does it for protocol 2.
# Usage: tests/gpu/mps3_check.sh [BUILD_DIR [OUT_DIR]]
#
# Starts a control daemon in directories of its own on the first GPU, runs small clients (at most 256 MiB each), sends
# every order of gpuman, and ends all of it. Changes no setting of a device. OUT_DIR/answers.log has every answer
# unchanged. Exit status 0: all answers are as expected; 1: some are not; 77: the program does not speak protocol 3, or
# another user's MPS runs.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
out=${2:-$build/mps3-check}
load=$build/bin/gpuman-load
if ! nvidia-cuda-mps-control -p 3 -h 2>/dev/null </dev/null | grep -qi namespace; then
  echo "mps3_check.sh: no nvidia-cuda-mps-control here that speaks protocol 3" >&2
  exit 77
fi
if pgrep -f 'nvidia-cuda-mps-control -d' >/dev/null; then
  echo "mps3_check.sh: an MPS control daemon runs already; it is left alone" >&2
  exit 77
fi
[ -x "$load" ] || { echo "mps3_check.sh: no bin/gpuman-load in $build" >&2; exit 2; }
mkdir -p "$out"
answers=$out/answers.log
: >"$answers"
directory=$(mktemp -d -t gpuman-mps3-check-XXXXXX)
pipe=$directory/pipe
mkdir "$pipe" "$directory/logs"
gpu=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | head -1)
gpu=${gpu:-${CUDA_VISIBLE_DEVICES:?name the UUID of a GPU: there is no nvidia-smi}}
export CUDA_MPS_PIPE_DIRECTORY=$pipe CUDA_MPS_LOG_DIRECTORY=$directory/logs CUDA_VISIBLE_DEVICES=$gpu
me=$(id -u)
clients=()

# shellcheck disable=SC2317 # by the trap
finish() {
  [ ${#clients[@]} -eq 0 ] || kill "${clients[@]}" 2>/dev/null
  wait 2>/dev/null
  timeout 30 nvidia-cuda-mps-control -p 3 -q >/dev/null 2>&1
  rm -rf "$directory"
}
trap finish EXIT

# The answer, with the exit status as its last line.
ask() {
  local answer
  answer=$(timeout 20 nvidia-cuda-mps-control -p 3 "$@" 2>&1 </dev/null; echo "status $?")
  printf '> %s\n%s\n' "$*" "$answer" >>"$answers"
  printf '%s' "$answer"
}

failed=0
# expect WHAT PATTERN ANSWER: a line of the answer must match the pattern.
expect() {
  if printf '%s\n' "$3" | grep -Eiq "$2"; then
    echo "ok      $1"
  else
    echo "DIFFERS $1: $(printf '%s' "$3" | head -3)"
    failed=1
  fi
}

# client NAMESPACE: a program that holds memory there.
client() {
  CUDA_MPS_PIPE_DIRECTORY=$pipe/u$me/$1 "$load" --alloc 64MiB --kernel-time 5ms --hold 60s --json >>"$out/clients.log" 2>&1 &
  clients+=($!)
  for _ in $(seq 100); do
    ask client list --all --format=csv | grep -q "^${clients[-1]}," && break
    sleep 0.2
  done
}

if ! nvidia-cuda-mps-control -d -p 3; then
  echo "mps3_check.sh: nvidia-cuda-mps-control does not start; its log:" >&2
  cat "$directory/logs/control.log" >&2
  exit 1
fi
for _ in $(seq 50); do
  [[ $(ask server list --format=csv) == *"status 0" ]] && break
  sleep 0.2
done
pid=$(cat "$pipe/nvidia-cuda-mps-control.pid" 2>/dev/null)
expect "pid file" '^[0-9]+$' "$pid"
expect "command line of the daemon" 'nvidia-cuda-mps-control -d -p 3' "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
expect "no servers yet" '^status 0$' "$(ask server list --format=csv)"
expect "a server" '^status 0$' "$(ask server create "u$me" "--uid=$me" "--allowed-devices=$gpu")"
expect "it is listed" "^u$me,$me,[0-9]+,ready," "$(ask server list --format=csv)"
expect "limits of the server" '^status 0$' "$(ask server set "u$me" --active-thread-percentage=50 --pinned-memory-limit=2048M)"
expect "a namespace" '^status 0$' "$(ask namespace create job7 "--server=u$me")"
expect "a namespace without limits" "^job7,u$me,[^,]*,(-|0|none|n/a|unlimited)?,(-|none|n/a|100(\.0+)?)?," "$(ask namespace list --format=csv)"
expect "limits of the namespace" '^status 0$' "$(ask namespace set job7 "--server=u$me" --active-thread-percentage=25 --pinned-memory-limit=1024M)"
list=$(ask namespace list --format=csv)
expect "they are listed" "^job7,u$me,[^,]*,(1024M|1G),25(\.0+)?," "$list"
expect "those of the default namespace are listed" "^default,u$me,[^,]*,(2048M|2G),50(\.0+)?," "$list"
expect "socket of the namespace" '^0$' "$([ -S "$pipe/u$me/job7/control" ]; echo $?)"
expect "no clients yet" '^status 0$' "$(ask client list --all --format=csv)"
client job7
expect "a client with its server and namespace" "^${clients[0]},u$me,.*job7," "$(ask client list --all --format=csv)"
CUDA_MPS_PIPE_DIRECTORY=$pipe/u$me/job7 "$load" --alloc 1536MiB --json >>"$out/clients.log" 2>&1
expect "an allocation over the namespace's limit is refused (status 3)" '^3$' "$?"
expect "a namespace with clients is not deleted" '^status [1-9]' "$(ask namespace delete job7 "--server=u$me")"
expect "nor is the server" '^status [1-9]' "$(ask server delete "u$me")"
ask namespace set job7 "--server=u$me" --active-thread-percentage=10 --pinned-memory-limit=128M >/dev/null
ask client terminate 1 >/dev/null  # records the text of a refusal
ask server set help >/dev/null     # whether it names --timeslice-pct
ask server set "u$me" --timeslice-pct=30 >/dev/null
nvidia-smi >>"$answers" 2>&1  # shows which processes the driver lists
expect "terminating a client" '^status 0$' "$(ask client terminate "${clients[0]}")"
kill "${clients[@]}" 2>/dev/null
wait
clients=()
sleep 1
expect "deleting the namespace" '^status 0$' "$(ask namespace delete job7 "--server=u$me")"
expect "deleting the server" '^status 0$' "$(ask server delete "u$me")"
expect "quit" '^status 0$' "$(ask -q)"
for _ in $(seq 100); do
  [ -e "/proc/$pid" ] || break
  sleep 0.2
done
expect "it has ended" '^0$' "$([ -e "/proc/$pid" ] && echo 1 || echo 0)"
expect "asking nobody fails" '^status [1-9]' "$(ask server list --format=csv)"
echo "every answer: $answers"
exit $failed
