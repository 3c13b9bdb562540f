#!/usr/bin/env bash
. tools/dev/common.sh

preset=${1:-release}
grep -q "\"name\": \"$preset\", \"inherits\"" CMakePresets.json || die "no preset '$preset' in CMakePresets.json"
need build test
case $preset in ninja-clang | fuzz) need clang ;; esac
build_preset "$preset"
