#!/bin/sh
# After `cmake --install` (or `ninja install`): the groups, the directories, the configuration, and what systemd
# has to know. May be run again at any time; works without systemd too. Needs root.
#
# Usage: postinstall.sh        DESTDIR=/some/tree postinstall.sh prepares a tree instead of this machine
set -eu

say() { printf 'gpuman: %s\n' "$*"; }

root=${DESTDIR:-}
if [ "$(id -u)" != 0 ]; then
  say "postinstall.sh must be run as root (sudo $0)" >&2
  exit 1
fi

make_group() {
  if [ -n "$root" ]; then
    grep -q "^$1:" "$root/etc/group" 2>/dev/null || groupadd --root "$root" --system "$1"
  else
    getent group "$1" >/dev/null || groupadd --system "$1"
  fi
}

make_group gpuman
make_group gpuman-admin
mkdir -p "$root/etc/gpuman" "$root/var/lib/gpuman"
chmod 0755 "$root/etc/gpuman" "$root/var/lib/gpuman"

# A configuration that is there is the administrator's.
if [ ! -e "$root/etc/gpuman/gpumand.toml" ]; then
  for prefix in /usr /usr/local; do
    if [ -f "$root$prefix/share/gpuman/gpumand.toml" ]; then
      cp "$root$prefix/share/gpuman/gpumand.toml" "$root/etc/gpuman/gpumand.toml"
      chmod 0644 "$root/etc/gpuman/gpumand.toml"
      break
    fi
  done
fi

if [ -n "$root" ]; then
  exit 0
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl is-active --quiet gpumand.service; then
    systemctl restart gpumand.service
    say "gpumand was restarted; running jobs were not touched"
  else
    say "start the daemon, now and at every boot: systemctl enable --now gpumand.service"
  fi
else
  say "systemd does not run here: start 'gpumand' as root from your own init"
fi
say "users who may start jobs: usermod -aG gpuman USER (then log in again)"
