#!/usr/bin/env bash
# Runs a command as a client of NVIDIA's MPS, with a control daemon in directories of its own: mps.sh COMMAND…
#
# Returns the command's exit status; 77 where there is no MPS. At the end the script always asks the daemon to quit. It
# changes no setting of the device (MPS serves in the default compute mode).
set -uo pipefail
[ $# -gt 0 ] || { echo "usage: mps.sh COMMAND..." >&2; exit 2; }
command -v nvidia-cuda-mps-control >/dev/null || { echo "mps.sh: no nvidia-cuda-mps-control here" >&2; exit 77; }
directory=$(mktemp -d -t gpuman-mps-XXXXXX)
export CUDA_MPS_PIPE_DIRECTORY=$directory/pipe CUDA_MPS_LOG_DIRECTORY=$directory/log
mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"

# shellcheck disable=SC2317  # called by the trap
quit() {
  echo quit | timeout 30 nvidia-cuda-mps-control >/dev/null 2>&1 || echo "mps.sh: MPS did not quit" >&2
  rm -rf "$directory"
}

# Without LD_PRELOAD: the server belongs to no job and must not load the shim.
if ! env -u LD_PRELOAD nvidia-cuda-mps-control -d; then
  echo "mps.sh: nvidia-cuda-mps-control does not start" >&2
  rm -rf "$directory"
  exit 77
fi
trap quit EXIT
"$@"
status=$?
# A client with a wrong pipe directory silently runs without MPS.
if ! echo get_server_list | timeout 10 nvidia-cuda-mps-control | grep -q '[0-9]'; then
  echo "mps.sh: no server was started: the command did not run under MPS" >&2
  tail -n 20 "$CUDA_MPS_LOG_DIRECTORY"/*.log >&2
  [ "$status" != 0 ] || status=1
fi
exit "$status"
