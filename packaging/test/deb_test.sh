#!/usr/bin/env bash
# Installs, uses, upgrades, removes and purges the packages in a minimal system of its own, and compares its files
# before and after. Not part of ./dev test; .github/workflows has it after ./dev package, which comes first. Needs root,
# debootstrap, and a mirror.
#
# Usage: packaging/test/deb_test.sh [SUITE]      MIRROR=URL; TREE=DIRECTORY of a system made before (not changed)
#   SUITE    bookworm (default), noble (Ubuntu 24.04): the one that the packages were built on
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

suite=${1:-bookworm}
case $suite in
  noble) mirror=${MIRROR:-http://archive.ubuntu.com/ubuntu} components=main,universe ;;
  *) mirror=${MIRROR:-http://deb.debian.org/debian} components=main ;;
esac
packages=(build/package/packages/*.deb build/package/packages/*.ddeb)
[ -f "${packages[0]}" ] || { echo "deb_test.sh: ./dev package first" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "deb_test.sh: needs root" >&2; exit 1; }
echo "== what the packages say of themselves"
python3 -B packaging/test/packages_test.py
work=$(mktemp -d /var/tmp/gpuman-deb-XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
tree=$work/tree
if [ -n "${TREE:-}" ]; then
  cp -a "$TREE" "$tree"
else
  debootstrap --variant=minbase --components="$components" "$suite" "$tree" "$mirror" >"$work/log" 2>&1 ||
    { tail "$work/log" >&2; exit 1; }
fi
mkdir "$tree/packages"
cp "${packages[@]}" "$tree/packages"
chmod 755 "$tree" "$tree/packages"

cat >"$tree/inside" <<'SCRIPT'
#!/bin/bash
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
fail() { echo "FAILED: $*" >&2; exit 1; }
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /var/cache \
  -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path '/etc/g*shadow-' \) -prune -o -print | sort; }
groups_of() { grep -cE '^gpuman(-admin)?:' /etc/group || true; }

apt-get -qq update
# What the packages depend on comes first, so that the comparison sees only what is theirs.
apt-get -qq install -y --no-install-recommends $(for deb in /packages/*.deb; do dpkg-deb -f "$deb" Depends; done |
  tr ',' '\n' | sed 's/^ *//; s/[ (|].*//; /^$/d' | sort -u) >/dev/null
files >/tmp/before

echo "== install"
apt-get -qq install -y --no-install-recommends /packages/*.deb >/tmp/install.log 2>&1 || { cat /tmp/install.log; fail install; }
grep -iE 'warning|error' /tmp/install.log && fail "the installation complains"
[ "$(groups_of)" = 2 ] || fail "the groups are not there"
for program in gpuman gpumand gpuman-sim gpuman-load gpuman-kube-plugin nvsharectl gbatch gqueue ginfo gjob gcancel gctl gstats gflowd; do
  "$program" --help >/dev/null || fail "$program --help"
done
sizes=$(dpkg-query -W -f '${Installed-Size}' gpuman)
taken=$(dpkg -L gpuman | while read -r file; do [ -L "$file" ] || [ ! -f "$file" ] || stat -c %s "$file"; done | awk '{ sum += $1 } END { print int(sum / 1024) }')
[ "$sizes" -lt $((taken * 3 / 2)) ] && [ "$sizes" -ge "$taken" ] || fail "gpuman says $sizes KiB and takes $taken"
[ "$taken" -lt 30000 ] || fail "gpuman takes $taken KiB: is it stripped?"
gpuman --version
gpumand --check-config || fail "the configuration that was installed is not accepted"
for file in /usr/share/man/man1/gpuman.1.gz /usr/share/man/man8/gpumand.8.gz /usr/share/man/man8/spank_gpuman.8.gz /usr/share/doc/gpuman/docs/README.md /usr/share/zsh/vendor-completions/_gpuman \
  /usr/share/bash-completion/completions/gpuman /usr/share/fish/vendor_completions.d/gpuman.fish; do
  [ -s "$file" ] || fail "$file"
done
for command in run submit status share; do
  zcat /usr/share/man/man1/gpuman.1.gz | grep "^Usage: gpuman $command " >/dev/null || fail "gpuman.1 does not have gpuman $command"
done
grep -oE '\]\([^)#:]+[)#]' /usr/share/doc/gpuman/README.md | sed 's/^..//; s/.$//' | while read -r link; do
  [ -s "/usr/share/doc/gpuman/$link" ] || fail "README.md links to $link, which is not there"
done
[ -L /etc/systemd/system/multi-user.target.wants/gpumand.service ] || fail "the service is not enabled"

echo "== debug symbols come and go beside them"
dpkg -i /packages/*.ddeb >/tmp/symbols.log 2>&1 || { cat /tmp/symbols.log; fail "debug symbols"; }
for ddeb in /packages/*.ddeb; do
  symbols=$(dpkg -L "$(dpkg-deb -f "$ddeb" Package)" | grep '\.debug$') || fail "$ddeb has no debug symbols"
  for file in $symbols; do [ -s "$file" ] || fail "$file"; done
  apt-get -qq purge -y "$(dpkg-deb -f "$ddeb" Package)" >/dev/null 2>&1 || fail "purging $ddeb"
done

echo "== use, as a system daemon on the simulated driver"
gpuman-sim exec --profile rtx4050 -- bash -euc '
  gpumand >/tmp/gpumand.log 2>&1 &
  for i in $(seq 200); do [ ! -S /run/gpuman/gpumand.sock ] || break; sleep 0.05; done
  gpuman run --tag fits --memory 1GiB --wait -- gpuman-load --alloc 256MiB --verify --iterations 3
  rc=0; gpuman run --tag asks --memory 1GiB --wait -- gpuman-load --alloc 5GiB --step 64MiB --hold 30s || rc=$?
  [ "$rc" = 3 ] || { echo "the library did not refuse memory: $rc"; gpuman status; exit 1; }
  rc=0; gpuman run --tag hog --memory 1GiB --wait -- env -u LD_PRELOAD gpuman-load --alloc 5GiB --step 64MiB --interval 20ms --hold 30s ||
    rc=$?
  [ "$rc" = 137 ] || { echo "the hog ended with $rc"; gpuman status; exit 1; }
  gpuman status
  for tag in fits asks hog; do gpuman remove $tag >/dev/null; done
  kill %1; wait %1 || true' || { tail -n 30 /tmp/gpumand.log; fail "use"; }

echo "== upgrade keeps what the administrator changed"
echo "# changed by the administrator" >>/etc/gpuman/gpumand.toml
apt-get -qq install -y --reinstall /packages/*.deb >/tmp/install.log 2>&1 </dev/null || { cat /tmp/install.log; fail upgrade; }
grep -q 'changed by the administrator' /etc/gpuman/gpumand.toml || fail "the configuration was overwritten"

echo "== remove keeps configuration and state, install comes back"
names=$(for deb in /packages/*.deb; do dpkg-deb -f "$deb" Package; done)
apt-get -qq remove -y $names >/dev/null 2>&1 || fail remove
[ -f /etc/gpuman/gpumand.toml ] && [ -d /var/lib/gpuman ] || fail "remove took configuration or state"
[ ! -e /usr/bin/gpuman ] || fail "remove left a program"
apt-get -qq install -y --no-install-recommends /packages/*.deb >/dev/null 2>&1 || fail "install after remove"
[ -L /etc/systemd/system/multi-user.target.wants/gpumand.service ] || fail "the service is not enabled again"
[ ! -L /etc/systemd/system/gpumand.service ] || fail "the service stayed masked"

echo "== purge leaves nothing but the groups"
apt-get -qq purge -y $names >/tmp/purge.log 2>&1 || { cat /tmp/purge.log; fail purge; }
files >/tmp/after
diff /tmp/before /tmp/after >/tmp/differs || { cat /tmp/differs; fail "files left or gone"; }
[ "$(groups_of)" = 2 ] || fail "the groups are gone"
SCRIPT
# shellcheck disable=SC2016
unshare --mount --pid --fork --kill-child --propagation private -- bash -euc '
  mount -t proc proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mount -t tmpfs tmpfs "$1/dev/shm"
  mount -t tmpfs tmpfs "$1/run"
  cp -L /etc/resolv.conf "$1/etc/resolv.conf"
  exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root bash /inside
' bash "$tree"
echo "== the packages install, work, upgrade, remove and purge cleanly on $suite"
