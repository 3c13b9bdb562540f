#!/usr/bin/env bash
# Format, layers, shell scripts, stray paths, links, clang-tidy. Reports everything it finds before it fails. clang-tidy
# looks at the sources that differ from the branch's upstream, or from --since REVISION; with --all at every one, or with
# folders at those in them. JOBS=1 runs one clang-tidy at a time.
. tools/dev/common.sh
. tools/dev/lint_scope.sh

usage() { die "usage: ./dev lint [--all [FOLDER…] | --since REVISION]"; }
all=no since=
folders=()
case ${1:-} in
  '') ;;
  --all)
    all=yes
    shift
    [ $# -eq 0 ] || folders=("${@%/}") ;;
  --since)
    since=${2:-}
    [ $# -eq 2 ] || usage ;;
  *) usage ;;
esac
need build test lint
findings=0
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=$ROOT
base=
if [ $all = no ]; then base=$(lint_base "$since") || die "no revision '$since' in this checkout"; fi

step() {
  say "== $1"
  shift
  "$@" || findings=$((findings + 1))
}

format() { tracked '*.cc' '*.h' '*.c' | xargs -r clang-format-14 --dry-run --Werror; }

layers() { python3 -B tools/check_layers.py && python3 -B tools/check_layers_test.py 2>&1 | tail -n 1; }

shell() {
  tracked | while read -r file; do
    case $file in
      *.sh | */postinst | */prerm | */postrm) say "$file" ;;
      *.*) ;;
      *) if head -c 40 "$file" | grep -aqE '^#!.*\b(ba|da)?sh\b'; then say "$file"; fi ;;
    esac
  done | xargs -r shellcheck -x
}

# No file names a place of the machine that it was written on.
paths() {
  local places=("$ROOT/") above
  case ${HOME:-/} in / | /root) ;; *) places+=("$HOME/") ;; esac
  above=$(dirname "$ROOT")
  case $above in / | /home | /usr/src | /opt | /srv | /tmp | /root) ;; *) places+=("(^|[^A-Za-z0-9_.*/-])$above/") ;; esac
  ! tracked | xargs grep -nIE "$(IFS='|'; echo "${places[*]}")" /dev/null
}

# A link of a document to a file of this tree leads somewhere.
links() {
  tracked '*.md' | python3 -c '
import pathlib, re, sys
broken = 0
for name in map(str.strip, sys.stdin):
    page = pathlib.Path(name)
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
            if not (page.parent / target).exists():
                print(f"{name}:{number}: no {target}")
                broken += 1
sys.exit(broken > 0)'
}

tidy() {
  local build=build/lint unity=OFF several=() every chosen sources=() generated=() started=$SECONDS rc=0
  # What differs is looked at each by itself: so a missing include is found as well. All of them are looked at as the
  # unity build compiles them: the same findings, in a twentieth of the time, since headers are read once for twenty.
  if [ $all = yes ]; then
    build=build/lint-all unity=ON
    several=(--argument='--header-filter=/(src|apps|sim|plugins|tests|bench)/[^.]*\.(h|cc)$'
      --argument=--checks=-bugprone-suspicious-include)
  fi
  local database=$build/compile_commands.json
  # Clang reads no precompiled headers of GCC.
  quiet configure-lint cmake --preset release -B $build -DGPUMAN_UNITY=$unity -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
    -DCCACHE_PROGRAM= || return 1
  every=$(tracked '*.cc' | lint_sources $database) || return 1
  chosen=$(lint_changed "$base" '*.cc' | lint_sources $database "${folders[@]}") || return 1
  [ -z "$chosen" ] || mapfile -t sources <<<"$chosen"
  scope=$(lint_scope $all "$base" ${#sources[@]} "$(wc -l <<<"$every")")
  say "$scope"
  [ ${#sources[@]} -gt 0 ] || return 0
  # What the build generates is included by sources.
  mapfile -t generated < <(ninja -C $build -t targets all | sed -nE 's/^([^/].*\.(h|cc)): CUSTOM_COMMAND$/\1/p')
  [ ${#generated[@]} = 0 ] || quiet generated-lint cmake --build $build --target "${generated[@]}" || return 1
  printf '%s\n' "${sources[@]}" | lint_units $database |
    python3 -B tools/tidy_all.py --database $build --jobs "${JOBS:-$(nproc)}" "${several[@]}" || rc=$?
  say "clang-tidy took $((SECONDS - started)) s"
  return $rc
}

scope=
step format format
step layers layers
step 'shell scripts' shell
step 'stray paths' paths
step links links
step clang-tidy tidy
if [ "$findings" != 0 ]; then die "$findings of 6 checks found something"; fi
say "clean; clang-tidy: $scope"
