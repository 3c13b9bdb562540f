#!/usr/bin/env python3
"""JAX asks for more than its limit, gets its own error, frees, and goes on; XLA_PYTHON_CLIENT_* say how it allocates.

It never asks for unified memory (XLA_PYTHON_CLIENT_MEM_FRACTION stays at or below 1).
"""

import gc
import os

import jax
import jax.numpy as jnp
import numpy

from common import Trial, fill, limit_arguments


def main():
    arguments = limit_arguments(__doc__).parse_args()
    trial = Trial("jax", arguments)
    trial.note(settings={name: value for name, value in os.environ.items() if name.startswith("XLA_PYTHON_CLIENT")})
    device = jax.devices()[0]
    trial.expect(device.platform in ("gpu", "cuda"), f"runs on {device.platform}")
    try:
        statistics = device.memory_stats() or {}
    except jax.errors.JaxRuntimeError:  # an allocator without statistics
        statistics = {}
    trial.note(bytes_limit=statistics.get("bytes_limit"))
    trial.expect(statistics.get("bytes_limit", 0) <= arguments.limit, "its allocator takes itself for larger")

    def take():
        return jax.device_put(numpy.zeros(arguments.step, numpy.uint8), device).block_until_ready()

    def ended(error):
        return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)

    for _ in range(2):
        blocks, error = fill(take, ended, arguments.limit // arguments.step + 1)
        trial.expect(error is not None, "never out of memory")
        trial.filled(len(blocks) * arguments.step, "RESOURCE_EXHAUSTED")
        trial.note(message=str(error).splitlines()[0] if error else "")
        error = None
        blocks.pop().delete()  # makes room for the sum; earlier blocks still work
        trial.expect(int(blocks[0][:4096].sum()) == 0, "zeros are no zeros")
        for block in blocks:
            block.delete()
        blocks.clear()
        gc.collect()
    a = jnp.full((1024, 1024), 0.5, jnp.float32)
    trial.expect(bool((jnp.dot(a, a) == 256).all()), "a product is wrong afterwards")
    trial.end()


if __name__ == "__main__":
    main()
