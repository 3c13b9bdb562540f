# shellcheck shell=bash
# Which files clang-tidy looks at, and why those: for tools/dev/lint.sh. Run at the root of a checkout.

# tracked PATTERN…: the files of the tree, those that are not added yet included.
tracked() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do [ ! -f "$file" ] || printf '%s\n' "$file"; done
}

# lint_base SINCE: the revision that the tree is compared with; nothing where there is none. SINCE: the one asked for, or "".
lint_base() {
  if [ -n "$1" ]; then
    git merge-base HEAD "$1"
  else
    git merge-base HEAD '@{upstream}' 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || true
  fi
}

# lint_changed BASE PATTERN…: the files that differ from BASE; all of them without one.
lint_changed() {
  local base=$1
  shift
  if [ -z "$base" ]; then
    tracked "$@"
  else
    { git diff --name-only --diff-filter=d "$base" -- "$@"; git ls-files --others --exclude-standard -- "$@"; } | sort -u
  fi
}

LINT_TOOLS=$(dirname "${BASH_SOURCE[0]}")/..

# Sources that the build of ./dev lint does not compile, which clang-tidy therefore never sees.
LINT_NOT_COMPILED=(
  'src/driver/abi/*_abi_*.cc' # needs the vendor's headers, which few machines have
  'tests/shim/arm64/*.cc'     # compiled for another processor
)

# lint_sources DATABASE [FOLDER…]: those sources of the input that clang-tidy is for, of all folders or of these. It fails,
# and names them, when DATABASE (compile_commands.json) lacks one that is not in the list above.
lint_sources() {
  local database=$1 known=() pattern
  shift
  for pattern in "${LINT_NOT_COMPILED[@]}"; do known+=("--known=$pattern"); done
  python3 -B "$LINT_TOOLS/compiled_sources.py" "$database" check "${known[@]}" "$@"
}

# lint_units DATABASE: what clang-tidy is given for the sources of the input, one a line.
lint_units() { python3 -B "$LINT_TOOLS/compiled_sources.py" "$1" units; }

# lint_scope ALL BASE SEEN OF: one line that says what clang-tidy was run over.
lint_scope() {
  local all=$1 base=$2 seen=$3 of=$4
  if [ "$all" = yes ]; then
    printf '%s of %s sources, as asked for\n' "$seen" "$of"
  elif [ -z "$base" ]; then
    printf '%s of %s sources, all: there is no upstream branch and no origin/main to compare with\n' "$seen" "$of"
  else
    printf '%s of %s sources: those that differ from %s%s\n' "$seen" "$of" "$(git log -1 --format='%h "%s"' "$base")" \
      "$([ "$seen" != 0 ] || printf '; ./dev lint --all looks at every one, ./dev lint --since REVISION at those that differ from it')"
  fi
}
