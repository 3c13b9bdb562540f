#!/usr/bin/env bash
# A machine as it comes: a minimal system in a directory, a clean clone of what is committed, and then only
# `./dev demo` and `./dev test`. Not part of ./dev test. Needs root, debootstrap, and a mirror of the distribution.
#
# Usage: tools/fresh_machine_test.sh [SUITE [COMMAND…]]
#   SUITE    bookworm (default), trixie, noble (Ubuntu 24.04)
#   COMMAND  ./dev commands to run, default: demo test
#   MIRROR=URL  TREE=DIRECTORY (kept and used again)  KEEP=1 (keep the tree)
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

suite=${1:-bookworm}
shift || true
commands=("$@")
[ ${#commands[@]} -gt 0 ] || commands=(demo test)
case $suite in
  noble) mirror=${MIRROR:-http://archive.ubuntu.com/ubuntu} components=main,universe ;;
  *) mirror=${MIRROR:-http://deb.debian.org/debian} components=main ;;
esac
[ "$(id -u)" = 0 ] || { echo "fresh_machine_test.sh: needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh_machine_test.sh: apt-get install debootstrap" >&2; exit 1; }

tree=${TREE:-$(mktemp -d /var/tmp/gpuman-fresh-XXXXXX)}
clean_up() { [ -n "${KEEP:-}${TREE:-}" ] || rm -rf --one-file-system "$tree"; }
trap clean_up EXIT

if [ ! -x "$tree/usr/bin/apt-get" ]; then
  echo "== a minimal $suite in $tree"
  script=/usr/share/debootstrap/scripts/$suite
  if [ ! -e "$script" ]; then
    case $suite in noble) script=/usr/share/debootstrap/scripts/gutsy ;; *) script=/usr/share/debootstrap/scripts/sid ;; esac
  fi
  debootstrap --variant=minbase --components="$components" "$suite" "$tree" "$mirror" "$script" >"$tree.log" 2>&1 || {
    tail -n 20 "$tree.log" >&2
    echo "fresh_machine_test.sh: $suite could not be fetched from $mirror" >&2
    exit 1
  }
  rm -f "$tree.log"
fi
chmod 755 "$tree"  # a directory of mktemp's is nobody else's, and this one becomes the root of a machine
rm -rf "$tree/usr/src/gpuman" "$tree"/tmp/gpuman*  # of a run before, where the tree was kept
git -c safe.directory='*' clone --quiet --no-hardlinks . "$tree/usr/src/gpuman"

# Its own mounts and processes, so that nothing is left behind whatever happens inside.
cat >"$tree/run-fresh" <<'SCRIPT'
#!/bin/bash
set -uo pipefail
cd /usr/src/gpuman
for command in "$@"; do
  echo "== ./dev $command"
  start=$SECONDS
  ./dev "$command" </dev/null || { echo "== ./dev $command FAILED ($?) after $((SECONDS - start)) s"; exit 1; }
  echo "== ./dev $command took $((SECONDS - start)) s"
  left=$(find /tmp /dev/shm -maxdepth 1 -name 'gpuman*' 2>/dev/null)
  [ -z "$left" ] || { echo "== ./dev $command left behind: $left"; exit 1; }
  running=$(cat /proc/[0-9]*/comm 2>/dev/null | grep -E '^gpuman' | sort | uniq -c)
  [ -z "$running" ] || { echo "== ./dev $command left running: $running"; exit 1; }
done
SCRIPT
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child --propagation private -- bash -euc '
  tree=$1
  shift
  mount -t proc proc "$tree/proc"
  mount --rbind /sys "$tree/sys"
  mount --rbind /dev "$tree/dev"
  mount -t tmpfs tmpfs "$tree/dev/shm"
  if [ ! "$tree/etc/resolv.conf" -ef /etc/resolv.conf ]; then cp -L /etc/resolv.conf "$tree/etc/resolv.conf"; fi
  exec chroot "$tree" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    TERM="${TERM:-dumb}" bash /run-fresh "$@"
' bash "$tree" "${commands[@]}"
echo "== $suite: as promised"
