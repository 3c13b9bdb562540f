#!/usr/bin/env bash
# Usage: build_sanitizers.sh PRESET [PID]: builds what ./dev test runs under a sanitizer, once the process PID has ended.
# Beside other tests: those wait for a good part of their time, and this comes after them wherever a processor is free.
# In a session of its own, so that it is ended whole.
. tools/dev/common.sh
. tools/dev/sanitizers.sh

renice -n 19 $$ >/dev/null
# Where the kernel shares processors by session, a process is only nice within its own. A session of somebody else,
# such as the shell that this was typed into, stays as it is.
if [ "$(ps -o sid= $$ | tr -d ' ')" = $$ ]; then
  { echo 19 >/proc/self/autogroup; } 2>/dev/null || true
fi

# targets_of PRESET REGEX: the test programs that ctest would run, as far as they are built here.
targets_of() {
  ctest --test-dir "build/$1" --show-only -R "$2" | sed -nE 's/^ *Test +#[0-9]+: ([^ ]+).*/\1/p' | sort >build/log/tests
  ninja -C "build/$1" -t targets all | sed -nE 's/^([^:/]+): phony$/\1/p' | sort | comm -12 - build/log/tests
}

preset=$1
[ $# = 1 ] || tail --pid="$2" -f /dev/null
quiet "configure-$preset" cmake --preset "$preset"
tests=${preset^^}_TESTS
mapfile -t targets < <(targets_of "$preset" "${!tests}")
build_preset "$preset" "${targets[@]}"
