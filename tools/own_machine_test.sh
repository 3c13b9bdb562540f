#!/usr/bin/env bash
# What needs a machine of its own: cgroup v2 with all its controllers and nothing of v1, which hold a job's host memory and
# processors; a wall clock that is set; ext4 with quotas of users. The machine is a kernel in a process (user-mode-linux of
# Debian) on this one's files, which it cannot write. Not part of ./dev test, where a hybrid machine skips the first, a
# preloaded library plays the second, and the third is skipped where the kernel has no such quota.
#
# Usage: tools/own_machine_test.sh [BUILD_DIR]    (default: build/release)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
root=$PWD build=$(readlink -f "${1:-build/release}")
[ "$(id -u)" = 0 ] || { echo "own_machine_test.sh: needs root" >&2; exit 1; }
for tool in linux.uml insmod; do
  command -v $tool >/dev/null || { echo "own_machine_test.sh: apt-get install user-mode-linux kmod" >&2; exit 1; }
done

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
export GPUMAN_TEST_MAY_SET_CLOCK=1
$build/tests/daemon_test --gtest_brief=1 --gtest_filter='WallClockTimerTest.*' || failed=1
python3 tests/integration/queue_bad_days_test.py ClockTest -v || failed=1
python3 tests/hostile/clock_test.py || failed=1
for module in quota_tree quota_v2 loop; do insmod \$(find /usr/lib/uml/modules -name \$module.ko) || failed=1; done
python3 tests/hostile/disk_test.py QuotaOnTheDiskOfTheState OwnDaemon \\
  FullDisk.test_a_user_whose_quota_is_used_up_submits_asks_and_cancels || failed=1
[ \$failed = 0 ] && echo "own machine: all passed"
halt -f
SCRIPT
chmod +x "$work/init"
timeout 600 linux.uml root=/dev/root rootfstype=hostfs rootflags=/ ro mem=3G init="$work/init" con=null con0=fd:0,fd:1 quiet \
  </dev/null 2>&1 | tee "$work/log"
grep -q '^own machine: all passed' "$work/log"
