#!/usr/bin/env bash
# Compares the answers of the real nvidia-cuda-mps-control with what src/mps expects.
# Usage: tests/gpu/mps_check.sh [BUILD_DIR [OUT_DIR]]
#
# Starts a control daemon in directories of its own on the first GPU, runs two small clients (at most 256 MiB each),
# sends every question of gpuman, and ends all of it. Changes no setting of a device. OUT_DIR/answers.log has every
# answer unchanged. Exit status 0: all answers are as expected; 1: some are not; 77: there is no MPS, or another user's
# runs.
set -uo pipefail
root=$(cd "$(dirname "$(readlink -f "$0")")/../.." && pwd)
build=$(readlink -f "${1:-$root/build/release}")
out=${2:-$build/mps-check}
load=$build/bin/gpuman-load
command -v nvidia-cuda-mps-control >/dev/null || { echo "mps_check.sh: no nvidia-cuda-mps-control here" >&2; exit 77; }
if pgrep -f 'nvidia-cuda-mps-control -d' >/dev/null; then
  echo "mps_check.sh: an MPS control daemon runs already; it is left alone" >&2
  exit 77
fi
[ -x "$load" ] || { echo "mps_check.sh: no bin/gpuman-load in $build" >&2; exit 2; }
mkdir -p "$out"
answers=$out/answers.log
: >"$answers"
directory=$(mktemp -d -t gpuman-mps-check-XXXXXX)
mkdir "$directory/pipe" "$directory/logs"
export CUDA_MPS_PIPE_DIRECTORY=$directory/pipe CUDA_MPS_LOG_DIRECTORY=$directory/logs
[ -n "${CUDA_VISIBLE_DEVICES:-}" ] || CUDA_VISIBLE_DEVICES=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | head -1)
[ -n "$CUDA_VISIBLE_DEVICES" ] && export CUDA_VISIBLE_DEVICES
clients=()

# shellcheck disable=SC2317 # by the trap
finish() {
  [ ${#clients[@]} -eq 0 ] || kill "${clients[@]}" 2>/dev/null
  wait 2>/dev/null
  echo "quit -t 5" | timeout 30 nvidia-cuda-mps-control >/dev/null 2>&1
  rm -rf "$directory"
}
trap finish EXIT

ask() {
  local answer
  answer=$(echo "$1" | timeout 20 nvidia-cuda-mps-control 2>&1)
  printf '> %s\n%s\n' "$1" "$answer" >>"$answers"
  printf '%s' "$answer"
}

failed=0
# expect WHAT PATTERN ANSWER: every line of the answer must match the pattern.
expect() {
  if [ "$(printf '%s\n' "$3" | grep -Evc "$2")" -eq 0 ]; then
    echo "ok      $1"
  else
    echo "DIFFERS $1: $(printf '%s' "$3" | head -3)"
    failed=1
  fi
}

if ! nvidia-cuda-mps-control -d; then
  echo "mps_check.sh: nvidia-cuda-mps-control does not start; its log:" >&2
  cat "$directory/logs/control.log" >&2
  exit 1
fi
for _ in $(seq 50); do
  [ -s "$directory/pipe/nvidia-cuda-mps-control.pid" ] && break
  sleep 0.2
done
pid=$(cat "$directory/pipe/nvidia-cuda-mps-control.pid" 2>/dev/null)
if [ -z "$pid" ]; then
  echo "mps_check.sh: there is no pid file in the pipe directory" >&2
  ls -la "$directory/pipe" >&2
  exit 1
fi
expect "pid file" '^[0-9]+$' "$pid"
expect "command line of the daemon" 'nvidia-cuda-mps-control -d' "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
expect "name of the daemon's process" '^nvidia-cuda-mps$' "$(cat "/proc/$pid/comm")"
expect "its environment names the directory" '1' "$(tr '\0' '\n' <"/proc/$pid/environ" | grep -c "^CUDA_MPS_PIPE_DIRECTORY=$directory/pipe$")"
ls -la "$directory/pipe" >>"$answers"
expect "no servers yet" '^$' "$(ask get_server_list)"
expect "default percentage" '^[0-9]+(\.[0-9]+)?$' "$(ask get_default_active_thread_percentage)"
expect "setting the default percentage" '^([0-9]+(\.[0-9]+)?)?$' "$(ask 'set_default_active_thread_percentage 50')"
expect "setting the default memory limit" '^([0-9]+[KMG]?B?)?$' "$(ask 'set_default_device_pinned_mem_limit 0 1024M')"
expect "default memory limit" '^([0-9]+[KMG]?B?)?$' "$(ask 'get_default_device_pinned_mem_limit 0')"

for _ in 1 2; do
  "$load" --alloc 64MiB --kernel-time 5ms --hold 60s --json >>"$out/clients.log" 2>&1 &
  clients+=($!)
done
server=
for _ in $(seq 100); do
  server=$(ask get_server_list | head -1)
  [[ $server =~ ^[0-9]+$ ]] && [ "$(ask "get_client_list $server" | grep -c .)" -ge 2 ] && break
  sleep 0.2
done
expect "server list" '^[0-9]+$' "$server"
expect "client list has both" '^2$' "$(ask "get_client_list $server" | grep -cE '^[0-9]+$')"
expect "clients are the programs" '^2$' "$(ask "get_client_list $server" | grep -cxE "$(IFS='|'; echo "${clients[*]}")")"
expect "percentage of the server" '^[0-9]+(\.[0-9]+)?$' "$(ask "get_active_thread_percentage $server")"
expect "memory limit of the server" '^([0-9]+[KMG]?B?)?$' "$(ask "get_device_pinned_mem_limit $server 0")"
expect "setting the server's percentage" '^([0-9]+(\.[0-9]+)?)?$' "$(ask "set_active_thread_percentage $server 40")"
expect "setting the server's memory limit" '^([0-9]+[KMG]?B?)?$' "$(ask "set_device_pinned_mem_limit $server 0 2048M")"
ask ps >/dev/null
nvidia-smi >>"$answers" 2>&1  # shows which processes the driver lists
big=$("$load" --alloc 4GiB --json 2>&1)
expect "an allocation over the limit is refused (status 3)" '^3$' "$?"
printf '> 4 GiB under the limit of 2 GiB\n%s\n' "$big" >>"$answers"
expect "terminating a client" '^([0-9]+)?$' "$(ask "terminate_client $server ${clients[0]}")"
ask "terminate_client $server 1" >/dev/null  # records the text of a refusal
ask "get_client_list 1" >/dev/null
kill "${clients[@]}" 2>/dev/null
wait
clients=()
expect "quit" '^$' "$(ask quit)"
for _ in $(seq 100); do
  [ -e "/proc/$pid" ] || break
  sleep 0.2
done
expect "it has ended" '^0$' "$([ -e "/proc/$pid" ] && echo 1 || echo 0)"
expect "asking nobody fails" '^1$' "$(echo get_server_list | nvidia-cuda-mps-control >/dev/null 2>&1; echo $?)"
echo "every answer: $answers"
exit $failed
