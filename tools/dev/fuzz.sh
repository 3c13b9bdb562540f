#!/usr/bin/env bash
# Each fuzz target for a while, from its seeds in tests/fuzz/NAME; a finding stays in build/fuzz/findings. With names,
# these alone.
. tools/dev/common.sh

seconds=${1:-30}
[[ $seconds =~ ^[0-9]+$ ]] || die "usage: ./dev fuzz [SECONDS [TARGET…]]"
[ $# -eq 0 ] || shift
need build clang
build_preset fuzz "${@:-fuzzers}"
targets=0
found=()
mkdir -p build/fuzz/findings
for program in build/fuzz/fuzz/*; do
  name=$(basename "$program")
  if [ ! -x "$program" ] || { [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; }; then continue; fi
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=()
  if [ -d "tests/fuzz/$name" ]; then seeds=("tests/fuzz/$name"); fi
  say "== $name, $seconds s"
  quiet "fuzz-$name" "$program" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 \
    -artifact_prefix="build/fuzz/findings/$name-" "$corpus" "${seeds[@]}" || found+=("$name")
  grep -E '^(Done|stat::number_of_executed_units)' "build/log/fuzz-$name.log" || true
  targets=$((targets + 1))
done
[ "$targets" -gt 0 ] || die "no fuzz target was built"
[ ${#found[@]} = 0 ] || die "${#found[@]} of $targets targets found something: ${found[*]}; the inputs are in build/fuzz/findings. Mend it, and keep the input in tests/fuzz/NAME"
say "$targets targets, nothing found"
