#!/usr/bin/env bash
# The tests with real engines around gpuman. `slurm` (the default): slurmctld, slurmd and munged of the distribution, in a
# directory of their own, on the simulated driver; as root. Arguments after it go to the test (a name, -v).
. tools/dev/common.sh

engine=${1:-slurm}
[ $# -eq 0 ] || shift
[ -d "tests/e2e/$engine" ] || die "there is no tests/e2e/$engine: $(cd tests/e2e && echo ./*/)"
need build test "$engine"
build_preset release programs
started=$SECONDS
GPUMAN_BUILD_DIR=$ROOT/build/release python3 -B "tests/e2e/$engine/${engine}_test.py" "$@"
say "e2e $engine: $((SECONDS - started)) s"
