#!/usr/bin/env bash
# The tests with real engines around gpuman, on the simulated driver, in a directory of their own; as root. Arguments after the
# engine go to the test (a name, -v).
#   slurm (the default): slurmctld, slurmd and munged of the distribution.
#   kubernetes [--if-built]: kubelet, built from Debian's source package the first time, and containerd. With --if-built
#   nothing is built or installed for it: where it cannot be run as things are, no test is, and a line says why.
. tools/dev/common.sh

engine=${1:-slurm}
[ $# -eq 0 ] || shift
[ -d "tests/e2e/$engine" ] || die "there is no tests/e2e/$engine: $(cd tests/e2e && echo ./*/)"
kubelet=tests/e2e/kubernetes/build_kubelet.sh

# Why the tests of Kubernetes cannot be run with what this machine has; nothing where they can.
hindrance() {
  local missing
  if [ -z "$($kubelet --if-built)" ]; then
    say "there is no kubelet yet; ./dev e2e kubernetes builds it"
    return 0
  fi
  missing=$(missing_of build test kubernetes | xargs)
  if [ -n "$missing" ]; then
    say "these packages are missing: $missing; ./dev e2e kubernetes installs them"
    return 0
  fi
  python3 -B tests/e2e/kubernetes/enclosure.py || say "the machine could not be looked at"
}

if [ "$engine ${1:-}" = "kubernetes --if-built" ]; then
  shift
  why=$(hindrance)
  if [ -n "$why" ]; then
    say "e2e kubernetes: not run, $why"
    exit 0
  fi
fi
need build test "$engine"
if [ "$engine" = kubernetes ]; then
  [ -n "$($kubelet --if-built)" ] || need kubelet
  GPUMAN_KUBELET=$($kubelet)
  export GPUMAN_KUBELET
fi
build_preset release programs
started=$SECONDS
GPUMAN_BUILD_DIR=$ROOT/build/release python3 -B "tests/e2e/$engine/${engine}_test.py" "$@"
say "e2e $engine: $((SECONDS - started)) s"
