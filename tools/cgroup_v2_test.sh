#!/usr/bin/env bash
# A machine that has cgroup v2 and nothing of v1, with all its controllers: what holds a job's host memory and processors is
# run there. The machine is a kernel in a process (user-mode-linux of Debian) on this one's files, which it cannot write. Not
# part of ./dev test, where a hybrid machine skips these cases.
#
# Usage: tools/cgroup_v2_test.sh [BUILD_DIR]    (default: build/release)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
root=$PWD build=$(readlink -f "${1:-build/release}")
[ "$(id -u)" = 0 ] || { echo "cgroup_v2_test.sh: needs root" >&2; exit 1; }
command -v linux.uml >/dev/null || { echo "cgroup_v2_test.sh: apt-get install user-mode-linux" >&2; exit 1; }

work=$(mktemp -d /var/tmp/gpuman-uml-XXXXXX)
trap 'rm -rf "$work"' EXIT
cat >"$work/init" <<SCRIPT
#!/bin/bash
mount -t proc proc /proc
mount -t sysfs sysfs /sys
for place in /tmp /run /dev/shm; do mount -t tmpfs tmpfs \$place 2>/dev/null; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo "+cpu +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control
for name in fd:fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -sf /proc/self/\${name#*:} /dev/\${name%:*}; done
ip link set lo up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export GPUMAN_BUILD_DIR=$build PYTHONDONTWRITEBYTECODE=1
cd $root
failed=0
python3 tests/integration/queue_enforce_test.py HostTest -v || failed=1
for test in keeper_unit_test keeper_test; do $build/tests/\$test --gtest_brief=1 || failed=1; done
[ \$failed = 0 ] && echo "cgroup v2: all passed"
halt -f
SCRIPT
chmod +x "$work/init"
timeout 600 linux.uml root=/dev/root rootfstype=hostfs rootflags=/ ro mem=3G init="$work/init" con=null con0=fd:0,fd:1 quiet \
  </dev/null 2>&1 | tee "$work/log"
grep -q '^cgroup v2: all passed' "$work/log"
