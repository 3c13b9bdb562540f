#!/usr/bin/env python3
"""The shapes of nvshare's own tests: sums by PyTorch, matrix products by JAX (in place of TensorFlow), checked at the
end.

Usage: pass_load.py torch-add|jax-matmul --size BYTES [--seconds S]

Three square matrices take --size together (JAX: a quarter of --size, which JAX allocates at once, as it always does);
operations follow one another for --seconds. Ends with PASS or FAIL and one JSON line, done {seconds, iterations, wrong,
time}.
"""

import argparse
import json
import math
import os
import time


def torch_add(side, keep_on):
    import torch
    a, b = (torch.full((side, side), float(value), device="cuda") for value in (1, 2))
    total, iterations = torch.zeros_like(a), 0
    while iterations == 0 or keep_on():
        for _ in range(100):
            torch.add(a, b, out=total)
        torch.cuda.synchronize()
        iterations += 100
    return iterations, sum(int(torch.count_nonzero(row - 3)) for row in total.split(1024))  # takes little memory


def jax_matmul(side, keep_on):
    import jax
    import jax.numpy as jnp
    # Each row of the product is the sum over a column: exact in float32.
    a, b = jnp.eye(side, dtype=jnp.float32), jnp.full((side, side), 3, dtype=jnp.float32)
    multiply = jax.jit(lambda x, y, old: x @ y, donate_argnums=2)
    product, iterations = jnp.zeros_like(b), 0
    while iterations == 0 or keep_on():
        product = multiply(a, b, product).block_until_ready()
        iterations += 1
    return iterations, int((product != 3).sum())


def main():
    options = argparse.ArgumentParser()
    options.add_argument("load", choices=("torch-add", "jax-matmul"))
    options.add_argument("--size", type=int, required=True)
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--device-size", type=int, help="what JAX takes for the device's memory")
    o = options.parse_args()
    begin = time.monotonic()
    load, matrices = {"torch-add": (torch_add, 3), "jax-matmul": (jax_matmul, 12)}[o.load]
    if o.device_size:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(o.size / o.device_size)
    iterations, wrong = load(math.isqrt(o.size // (4 * matrices)), lambda: time.monotonic() < begin + o.seconds)
    print("FAIL" if wrong else "PASS")
    print(json.dumps({"event": "done", "seconds": time.monotonic() - begin, "iterations": iterations, "wrong": wrong,
                      "time": time.time()}), flush=True)


main()
