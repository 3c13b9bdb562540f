#!/usr/bin/env bash
# Each fuzz target for a while, from its seeds in tests/fuzz/NAME; a finding stays in build/fuzz/findings.
. tools/dev/common.sh

seconds=${1:-30}
[[ $seconds =~ ^[0-9]+$ ]] || die "usage: ./dev fuzz [SECONDS]"
need build clang
build_preset fuzz
targets=0
for program in build/fuzz/fuzz/*; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus" build/fuzz/findings
  seeds=()
  if [ -d "tests/fuzz/$name" ]; then seeds=("tests/fuzz/$name"); fi
  say "== $name, $seconds s"
  quiet "fuzz-$name" "$program" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=10 \
    -artifact_prefix="build/fuzz/findings/$name-" "$corpus" "${seeds[@]}"
  grep -E '^(Done|stat::number_of_executed_units)' "build/log/fuzz-$name.log" || true
  targets=$((targets + 1))
done
[ "$targets" -gt 0 ] || die "no fuzz target was built"
say "$targets targets, nothing found"
