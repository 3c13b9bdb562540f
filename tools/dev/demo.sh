#!/usr/bin/env bash
# Builds the programs and shows the main job on the real driver, or on the simulated one where there is none.
. tools/dev/common.sh

need build
# What the tests need is not asked for yet.
CONFIGURE=(-DGPUMAN_TESTS=OFF -DGPUMAN_BENCHMARKS=OFF)
build_preset release demo_programs
if gpu=$(python3 -B tools/demo.py --find-driver); then
  say "Real driver: $gpu."
  exec python3 -B tools/demo.py build/release
fi
say "No NVIDIA driver with a GPU on this machine: this is the simulated driver."
exec build/release/bin/gpuman-sim exec --profile rtx4050 -- python3 -B tools/demo.py build/release
