#!/usr/bin/env python3
"""One process that uses all visible GPUs with jax.pmap: each step has an all-reduce over them.

Usage: jax_gang.py [--ballast BYTES] [--until FILE]

It holds --ballast bytes on each GPU and changes some of them in each step; its JSON lines are those of torch_gang.py.
"""

import argparse
import os
import pathlib
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from common import say  # noqa: E402

BLOCK, WIDTH = 256 << 20, 2048


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ballast", type=int, default=0)
    parser.add_argument("--until")
    o = parser.parse_args()
    gpus = jax.local_device_count()
    draw = jax.pmap(lambda key: jax.random.normal(key, (WIDTH, WIDTH)))
    weights = draw(jax.random.split(jax.random.key(1), gpus)) * WIDTH ** -0.5
    state = draw(jax.random.split(jax.random.key(2), gpus))
    fill = jax.pmap(lambda first: jnp.full((BLOCK // 4,), first, jnp.int32))
    blocks = [fill(jnp.arange(gpus) * 1000 + number) for number in range(o.ballast // BLOCK)]
    rounds = [0] * len(blocks)
    add = jax.pmap(lambda block: block + 1, donate_argnums=0)

    @jax.pmap
    def same(block, first):
        return (block != first).sum()

    def step(state, weights):
        for _ in range(8):
            state = jax.lax.psum(jnp.tanh(state @ weights), "gpus") * 0.5
        return state
    step = jax.pmap(step, axis_name="gpus", donate_argnums=0)

    number, ends = 0, False
    while not ends:
        state = step(state, weights)
        if blocks:
            index = number % len(blocks)
            blocks[index] = add(blocks[index])
            rounds[index] += 1
        number += 1
        if number % 10 == 0:
            ends = bool(o.until and pathlib.Path(o.until).exists())
            say(event="step", number=number, loss=float(state[-1, 0, :8].sum()).hex())
    wrong = sum(int(same(block, jnp.arange(gpus) * 1000 + index + rounds[index]).sum()) for index, block in enumerate(blocks))
    say(event="done", number=number, wrong=wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
