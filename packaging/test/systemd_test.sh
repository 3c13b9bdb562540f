#!/usr/bin/env bash
# Boots a minimal system with systemd as process 1 and the packages installed, and uses the service as an administrator would:
# start, reload, restart, a killed and a hung daemon, stop, the machine down and up again. Jobs run all the while, on the simulated
# driver. Not part of ./dev test. Needs root, debootstrap, systemd-nspawn and a mirror; ./dev package comes first.
#
# Usage: packaging/test/systemd_test.sh [SUITE]      MIRROR=URL; TREE=DIRECTORY of a system made before (not changed)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

suite=${1:-bookworm}
packages=(build/package/packages/*.deb)
[ -f "${packages[0]}" ] || { echo "systemd_test.sh: ./dev package first" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "systemd_test.sh: needs root" >&2; exit 1; }
command -v systemd-nspawn >/dev/null || { echo "systemd_test.sh: needs systemd-nspawn (systemd-container)" >&2; exit 1; }
work=$(mktemp -d /var/tmp/gpuman-systemd-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
tree=$work/tree
if [ -n "${TREE:-}" ]; then
  cp -a "$TREE" "$tree"
else
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,python3-minimal,procps "$suite" "$tree" "${MIRROR:-http://deb.debian.org/debian}" \
    >"$work/log" 2>&1 || { tail "$work/log" >&2; exit 1; }
fi
chmod 755 "$tree"
mkdir -p "$tree/packages" "$tree/etc/systemd/system/multi-user.target.wants"
cp "${packages[@]}" "$tree/packages"

cat >"$tree/install" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends /packages/*.deb >/tmp/install.log 2>&1 || { cat /tmp/install.log; exit 1; }
useradd --create-home --groups gpuman anna
gpuman-sim exec --profile a100 --gpus 1 --dir /var/lib/simulated -- env | grep -E '^(GPUMAN_SIM_DIR|LD_LIBRARY_PATH)=' >/etc/simulated
chmod -R a+rwX /var/lib/simulated
mkdir -p /etc/systemd/system/gpumand.service.d
printf '[Service]\nEnvironmentFile=/etc/simulated\n' >/etc/systemd/system/gpumand.service.d/simulated.conf
SCRIPT

cat >"$tree/check" <<'SCRIPT'
#!/bin/bash
# The first and the second boot; ends with the machine down. The outcome is in /outcome.
set -euo pipefail
exec >>/checked 2>&1
fail() { echo "FAILED: $*"; systemctl status gpumand || true; journalctl -n 40 -u gpumand --no-pager || true; systemctl poweroff; exit 1; }
trap 'fail "line $LINENO"' ERR
set -a; . /etc/simulated; set +a
as_anna() { runuser -u anna -- env HOME=/home/anna "$@"; }
until_true() { for _ in $(seq 400); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.2; done; return 1; }
main_pid() { systemctl show -P MainPID gpumand; }
of() { as_anna gpuman status --all --json | python3 -c 'import json, sys
print([str(job.get(sys.argv[2])) for job in json.load(sys.stdin)["jobs"] if job["tag"] == sys.argv[1]][-1])' "$1" "$2"; }
is() { [ "$(of "$1" state)" = "$2" ]; }
ticks() { as_anna gpuman logs "$1" 2>/dev/null | grep -c tick || true; }
writes_on() { [ "$(ticks "$1")" -gt "$2" ]; }
# The job TAG runs, known to the daemon, with the process PID, and its output arrives.
lives() { until_true is "$1" running && [ "$(pgrep -u anna -f "$2")" = "$3" ] && until_true writes_on "$1" "$(ticks "$1")"; }

until_true systemctl --quiet is-active gpumand || fail "the service did not start"
if [ -e /second ]; then
  echo "== after the machine went down and came up"
  is lasting running || fail "a job with --restart always did not come back: $(of lasting state), $(of lasting reason)"
  ! is once running || fail "a job without a restart policy came back"
  [ "$(of once reason)" != None ] || fail "no reason for the job that the shutdown ended"
  echo "once: $(of once state), $(of once reason)"
  as_anna gpuman remove lasting >/dev/null
  echo passed >/outcome
  systemctl poweroff
  exit 0
fi
touch /second

echo "== as installed: active, notify, watchdog"
[ "$(systemctl show -P Type gpumand)" = notify ] || fail type
[ "$(systemctl show -P WatchdogUSec gpumand)" = 30s ] || fail "watchdog $(systemctl show -P WatchdogUSec gpumand)"
systemd-analyze verify --man=no gpumand.service || fail "systemd-analyze verify"
systemctl is-enabled --quiet gpumand || fail "not enabled"

echo "== jobs of a user of the group gpuman"
as_anna gpuman run --tag once --memory 1GiB --detach -- sh -c 'while :; do echo tick; sleep 0.2; done; : the-one' >/dev/null
as_anna gpuman run --tag lasting --restart always --detach -- sh -c 'while :; do echo tick; sleep 0.2; done; : the-other' >/dev/null
until_true is once running && until_true is lasting running || fail "the jobs did not start"
pid=$(pgrep -u anna -f 'the-one')
[ "$(cat "/proc/$pid/oom_score_adj")" = 0 ] || fail "the job inherited the daemon's oom_score_adj"
! runuser -u nobody -- gpuman run --tag intruder -- true || fail "somebody outside the group may run jobs"
! runuser -u nobody -- gpuman remove once || fail "somebody may remove another's job"

echo "== reload"
before=$(main_pid); systemctl reload gpumand; [ "$(main_pid)" = "$before" ] || fail "reload made a new process"
lives once the-one "$pid"

echo "== restart"
systemctl restart gpumand; [ "$(main_pid)" != "$before" ] || fail "restart kept the process"
lives once the-one "$pid" || fail "the job did not survive a restart"

echo "== killed"
before=$(main_pid); kill -9 "$before"
replaced() { [ "$(main_pid)" != "$before" ] && [ "$(main_pid)" != 0 ] && systemctl --quiet is-active gpumand; }
until_true replaced || fail "not started again"
lives once the-one "$pid" || fail "the job did not survive a killed daemon"

echo "== hung: the watchdog"
before=$(main_pid); kill -STOP "$before"
until_true replaced || fail "the watchdog did not act"
lives once the-one "$pid" || fail "the job did not survive the watchdog"

echo "== stop, start: limits hold again"
systemctl stop gpumand
[ "$(pgrep -u anna -f the-one)" = "$pid" ] || fail "stopping the daemon ended a job"
systemctl start gpumand
lives once the-one "$pid" || fail "the job is not known any more"
rc=0; as_anna gpuman run --tag hog --memory 1GiB --wait -- env -u LD_PRELOAD gpuman-load --alloc 5GiB --step 64MiB --interval 20ms \
  --hold 30s >/dev/null || rc=$?
[ "$rc" = 137 ] || fail "the hog ended with $rc"
echo "hog: $(of hog state), $(of hog reason)"
echo "== the machine goes down"
systemctl poweroff
SCRIPT
chmod 755 "$tree/install" "$tree/check"
cat >"$tree/etc/systemd/system/check.service" <<'UNIT'
[Unit]
After=gpumand.service multi-user.target
[Service]
ExecStart=/check
TimeoutStopSec=5
UNIT
ln -s ../check.service "$tree/etc/systemd/system/multi-user.target.wants/check.service"

cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
systemd-nspawn --quiet --register=no --keep-unit --resolv-conf=off -D "$tree" /install
for boot in first second; do
  timeout 300 systemd-nspawn --quiet --register=no --keep-unit --resolv-conf=off -D "$tree" -b >"$work/$boot" 2>&1 </dev/null ||
    { tail -n 40 "$work/$boot" "$tree/checked" >&2; echo "systemd_test.sh: the $boot boot did not end" >&2; exit 1; }
  cat "$tree/checked"
  ! grep -q ^FAILED "$tree/checked" || exit 1
  : >"$tree/checked"
done
grep -q passed "$tree/outcome" 2>/dev/null || { echo "systemd_test.sh: the second boot did not pass" >&2; exit 1; }
echo "== the service starts, survives and keeps its jobs under systemd on $suite"
