#!/usr/bin/env bash
# The tests with real engines around gpuman, on the simulated driver, in a directory of their own; as root. Arguments after the
# engine go to the test (a name, -v).
#   slurm (the default): slurmctld, slurmd and munged of the distribution.
#   kubernetes [--if-built]: kubelet, built from Debian's source package the first time, and containerd. With --if-built
#   nothing is built or installed for it: where there is no kubelet yet, no test is run, and it says so.
. tools/dev/common.sh

engine=${1:-slurm}
[ $# -eq 0 ] || shift
[ -d "tests/e2e/$engine" ] || die "there is no tests/e2e/$engine: $(cd tests/e2e && echo ./*/)"
kubelet=tests/e2e/kubernetes/build_kubelet.sh
if [ "$engine ${1:-}" = "kubernetes --if-built" ]; then
  shift
  if [ -z "$($kubelet --if-built)" ]; then
    say "e2e kubernetes: not run, there is no kubelet yet; ./dev e2e kubernetes builds it"
    exit 0
  fi
fi
need build test "$engine"
if [ "$engine" = kubernetes ]; then
  GPUMAN_KUBELET=$($kubelet)
  export GPUMAN_KUBELET
fi
build_preset release programs
started=$SECONDS
GPUMAN_BUILD_DIR=$ROOT/build/release python3 -B "tests/e2e/$engine/${engine}_test.py" "$@"
say "e2e $engine: $((SECONDS - started)) s"
