#!/usr/bin/env bash
# The tests that need a real GPU; they write a report.
. tools/dev/common.sh

ldconfig -p | grep -q 'libcuda\.so\.1' || die "no NVIDIA driver here (libcuda.so.1); ./dev test needs none"
need build test
build_preset release
exec bash tests/gpu/run.sh "$@"
