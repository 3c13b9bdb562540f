# shellcheck shell=bash
# What the ./dev commands share. Sourced at the root of the checkout.

set -euo pipefail
ROOT=$PWD
# Precompiled headers are content like any other: the sloppiness lets the cache serve sources that include them.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
export LC_ALL=C.UTF-8

# shellcheck source=tools/dev/progress.sh
. tools/dev/progress.sh

say() { printf '%s\n' "$*"; }
die() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

# packages_of GROUP…: the packages of those groups of packages.txt.
packages_of() {
  local group
  for group in "$@"; do
    awk -v group="$group" '$1 == group { for (i = 2; i <= NF; i++) print $i }' packages.txt
  done
}

is_installed() { dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null | grep -q '^.i'; }

has_packages() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

# missing_of GROUP…: the packages of those groups that are not installed; none on a system that has no such packages.
missing_of() {
  local package
  has_packages || return 0
  for package in $(packages_of "$@"); do
    is_installed "$package" || say "$package"
  done
}

# need GROUP…: install what is missing of those groups; where that is not possible, say what to install.
need() {
  local missing as_root=()
  if ! has_packages; then
    say "dev: not a Debian or Ubuntu system; expecting the equivalents of: $(packages_of "$@" | xargs)"
    return 0
  fi
  mapfile -t missing < <(missing_of "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      die "these packages are missing, and installing them needs root. Run as root, then try again:

    apt-get update && apt-get install -y --no-install-recommends ${missing[*]}
"
    fi
  fi
  say "installing: ${missing[*]}"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
  quiet apt-update "${apt[@]}" update
  quiet apt-install "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    die "installation failed. On Ubuntu most of these packages are in 'universe': add-apt-repository universe"
}

# quiet NAME COMMAND…: output goes to build/log/NAME.log, and to the terminal only when the command fails.
quiet() {
  local name=$1 log rc=0
  shift
  log=build/log/$name.log
  mkdir -p build/log
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  if [ "$rc" != 0 ]; then
    tail -n 150 "$log" >&2
    say "dev: failed ($rc): $* (whole output: $log)" >&2
  fi
  return "$rc"
}

# build_jobs: one a core, and no more than memory allows (the largest sources take about 1.5 GiB each).
build_jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1572864) }' /proc/meminfo)
  if [ "$memory" -lt 1 ]; then memory=1; fi
  if [ "$memory" -lt "$cores" ]; then say "$memory"; else say "$cores"; fi
}

# build_preset PRESET [TARGET…]: configure, with CONFIGURE's options where that is set, then build those targets, or
# everything.
CONFIGURE=()
build_preset() {
  local preset=$1
  shift
  say "building $preset, several minutes where nothing is built yet; its output: build/log/build-$preset.log"
  quiet "configure-$preset" cmake --preset "$preset" "${CONFIGURE[@]}"
  build_folder "$preset" "$@"
}

# build_folder NAME [TARGET…]: build those targets, or everything, in build/NAME, and tell how far it is.
build_folder() {
  local name=$1 log=build/log/build-$1.log started=$SECONDS rc=0
  shift
  : >"$log"
  report_progress "$log" "$name" &
  PROGRESS=$!
  quiet "build-$name" cmake --build "build/$name" --parallel "$(build_jobs)" ${1:+--target "$@"} || rc=$?
  end_progress
  [ "$rc" = 0 ] || return "$rc"
  say "built $name in $((SECONDS - started)) s"
}

# The line on how far the build is goes with the build, also where that is interrupted.
PROGRESS=
end_progress() {
  [ -n "$PROGRESS" ] || return 0
  kill "$PROGRESS" 2>/dev/null || true
  wait "$PROGRESS" 2>/dev/null || true
  PROGRESS=
  [ ! -t 1 ] || printf '\r\033[K'
}
trap end_progress EXIT
