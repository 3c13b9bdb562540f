#!/usr/bin/env bash
# Whole programs and what measures itself in the release build; what reads foreign bytes, keeps books or has threads under
# the sanitizers, in builds of their own. --release and arguments of ctest: everything, in the release build alone. Once the others have passed, --kubernetes: also ./dev e2e kubernetes,
# --kubernetes-if-built: the same where that can be run at once; --clang: also ./dev clang, --clang-if-there: the same
# where clang is installed, with a limit of time. The last line is the total.
. tools/dev/common.sh
. tools/dev/sanitizers.sh

PASSED=0 FAILED=0 SKIPPED=0 OF_FAILED=
sanitizer_options

# pass PRESET CTEST-ARGUMENTS…: runs ctest and adds its counts to the total. Tests wait for a good part of their time, so
# there are two at once for each processor.
pass() {
  local preset=$1 log=build/log/test-$1.log closing total failed skipped rc=0
  shift
  mkdir -p build/log
  "${LAUNCHER[@]}" ctest --test-dir "build/$preset" --output-on-failure --parallel $((2 * $(nproc))) --no-tests=error \
    "$@" </dev/null 2>&1 | tee "$log" || rc=$?
  closing=$(grep -E 'tests? passed, [0-9]+ tests? failed out of [0-9]+' "$log" | tail -n 1 || true)
  total=$(sed -E 's/.* out of ([0-9]+).*/\1/' <<<"${closing:-out of 0}")
  failed=$(sed -E 's/.* ([0-9]+) tests? failed.*/\1/' <<<"${closing:- 1 tests failed}")
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*(\*\*\*Skipped|Not Run \(Disabled\))' "$log" || true)
  if [ "$rc" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
  if [ "$total" -lt $((failed + skipped)) ]; then total=$((failed + skipped)); fi
  [ "$failed" = 0 ] || OF_FAILED+=$(ends_of_failed "$preset")$'\n'
  PASSED=$((PASSED + total - failed - skipped))
  FAILED=$((FAILED + failed))
  SKIPPED=$((SKIPPED + skipped))
}

# ends_of_failed PRESET: the last lines of what each failed test of the last run printed.
ends_of_failed() {
  local directory=build/$1/Testing/Temporary
  awk -v lines=40 '
    NR == FNR { sub(/^[^:]*:/, ""); failed[$0] = 1; next }
    $2 == "Testing:" { name = $3; of_test = 0; n = 0; next }
    $0 == "Output:" { of_test = 1; next }
    /^<end of output>$/ && of_test {
      of_test = 0
      if (!(name in failed)) next
      print "-- the end of what " name " printed:"
      for (i = n > lines ? n - lines : 0; i < n; i++) print line[i]
    }
    of_test { line[n++] = $0 }' "$directory/LastTestsFailed.log" "$directory/LastTest.log" 2>/dev/null || true
}

# beside WHAT NOT-RUN COMMAND…: a ./dev command of its own as one test of the total; skipped where it says NOT-RUN.
beside() {
  local what=$1 not_run=$2 log=build/log/test-${1%%:*}.log
  shift 2
  say "== $what"
  if ! bash "$@" </dev/null 2>&1 | tee "$log"; then
    FAILED=$((FAILED + 1))
  elif grep -qE "$not_run" "$log"; then
    SKIPPED=$((SKIPPED + 1))
  else
    PASSED=$((PASSED + 1))
  fi
}

LAUNCHER=(env)
release_only=no
KUBERNETES=() CLANG=()
while [ $# -gt 0 ]; do
  case $1 in
    --release) release_only=yes ;;
    --kubernetes) KUBERNETES=(tools/dev/e2e.sh kubernetes) ;;
    --kubernetes-if-built) KUBERNETES=(tools/dev/e2e.sh kubernetes --if-built) ;;
    --clang) CLANG=(tools/dev/clang.sh) ;;
    --clang-if-there) CLANG=(tools/dev/clang.sh --if-there) ;;
    *) break ;;
  esac
  shift
done
[ $# = 0 ] || release_only=yes
started=$SECONDS
need build test slurm
if [ $release_only = yes ]; then
  say "== release: every test that needs no GPU"
else
  say "== release: every test that needs no GPU, but for those that run under the address sanitizer"
  CONFIGURE=(-DGPUMAN_TESTS_ELSEWHERE="$ASAN_TESTS")
fi
build_preset release
ASAN=
TSAN=
end_builds() {
  local build
  end_progress
  for build in $ASAN $TSAN; do kill -- "-$build" 2>/dev/null || true; done
}
if [ $release_only = no ]; then
  setsid bash tools/dev/build_sanitizers.sh asan >build/log/sanitizers-asan.log 2>&1 </dev/null &
  ASAN=$!
  setsid bash tools/dev/build_sanitizers.sh tsan "$ASAN" >build/log/sanitizers-tsan.log 2>&1 </dev/null &
  TSAN=$!
  trap end_builds EXIT
fi
pass release -LE gpu "$@"

# built PRESET PID: whether that build, which began beside the tests, ends well.
built() {
  say "== $1: what is left of its build, which began beside the tests: build/log/sanitizers-$1.log"
  wait "$2" && return
  cat "build/log/sanitizers-$1.log"
  FAILED=$((FAILED + 1))
  return 1
}

if [ $release_only = no ]; then
  if built asan "$ASAN"; then
    ASAN=
    say "== asan: address sanitizer, and most checks of undefined behaviour"
    pass asan -R "$ASAN_TESTS"
  fi
  if built tsan "$TSAN"; then
    TSAN=
    # Under some kernels the thread sanitizer cannot map its shadow while addresses are randomised.
    say "== tsan: thread sanitizer, on what has threads"
    if setarch "$(uname -m)" -R true 2>/dev/null; then LAUNCHER=(setarch "$(uname -m)" -R); fi
    pass tsan -R "$TSAN_TESTS"
  fi
fi

if [ "$FAILED" = 0 ] && [ ${#KUBERNETES[@]} != 0 ]; then
  beside "kubernetes: kubelet and containerd around gpuman" '^e2e kubernetes: not run' "${KUBERNETES[@]}"
fi
if [ "$FAILED" = 0 ] && [ ${#CLANG[@]} != 0 ]; then
  beside "clang: everything built with it, each parser fuzzed" '^clang: not (run|whole)' "${CLANG[@]}"
elif [ $release_only = no ] && [ ${#CLANG[@]} = 0 ]; then
  say "clang: not asked for; ./dev clang builds everything with it and fuzzes each parser for 10 s"
fi

[ -z "$OF_FAILED" ] || printf '%s' "$OF_FAILED"
say "all passes in $((SECONDS - started)) s"
say "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ "$FAILED" = 0 ]
