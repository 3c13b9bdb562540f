# shellcheck shell=bash
# How far a build is, read from its log: for tools/dev/common.sh.

# progress_of LOG SECONDS: "120 of 600 steps, about 4 minutes left", where SECONDS have gone by; nothing before the
# first step has ended.
progress_of() {
  local log=$1 elapsed=$2 step done_steps all left
  step=$(tail -c 16384 "$log" 2>/dev/null | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -n 1) || return 0
  IFS='[/]' read -r _ done_steps all _ <<<"$step"
  [ "$done_steps" -gt 0 ] || return 0
  left=$((elapsed * (all - done_steps) / done_steps))
  if [ "$left" -lt 60 ]; then
    left="less than a minute"
  else
    left=$(((left + 59) / 60))
    if [ "$left" = 1 ]; then left="about 1 minute"; else left="about $left minutes"; fi
  fi
  printf '%s of %s steps, %s left\n' "$done_steps" "$all" "$left"
}

# report_progress LOG PRESET: until it is killed, or the shell that calls it is gone. On a terminal one line that
# changes each second, elsewhere a new line each minute.
report_progress() {
  local log=$1 preset=$2 started=$SECONDS text every=60
  [ ! -t 1 ] || every=1
  while sleep "$every" && kill -0 $$ 2>/dev/null; do
    text=$(progress_of "$log" $((SECONDS - started)))
    [ -n "$text" ] || continue
    if [ -t 1 ]; then
      printf '\r%s: %s\033[K' "$preset" "$text"
    else
      printf '%s: %s\n' "$preset" "$text"
    fi
  done
}
