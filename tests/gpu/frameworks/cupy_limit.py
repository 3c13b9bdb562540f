#!/usr/bin/env python3
"""CuPy asks for more than its limit, gets its own error, frees, and goes on. --pool async: the driver's pool."""

import cupy

from common import Trial, fill, limit_arguments


def main():
    parser = limit_arguments(__doc__)
    parser.add_argument("--pool", choices=["own", "async"], default="own")
    arguments = parser.parse_args()
    trial = Trial("cupy", arguments)
    pool = cupy.cuda.MemoryAsyncPool() if arguments.pool == "async" else cupy.get_default_memory_pool()
    cupy.cuda.set_allocator(pool.malloc)
    free, total = cupy.cuda.runtime.memGetInfo()
    trial.note(pool=arguments.pool, total=total, free=free)
    trial.expect(total == arguments.limit, f"memGetInfo says {total}")

    def take():
        memory = cupy.cuda.alloc(arguments.step)
        memory.memset(7, arguments.step)
        return memory

    def ended(error):
        """CuPy's own pool has an error class for it; the driver's pool passes on the runtime's error."""
        return isinstance(error, cupy.cuda.memory.OutOfMemoryError) or "MemoryAllocation" in str(error)

    for _ in range(2):
        blocks, error = fill(take, ended, arguments.limit // arguments.step + 1)
        trial.expect(error is not None, "never out of memory")
        trial.filled(len(blocks) * arguments.step, type(error).__name__)
        trial.note(message=str(error))
        error = None
        cupy.cuda.Device().synchronize()
        blocks.clear()
        cupy.cuda.Device().synchronize()
        pool.free_all_blocks()
    trial.expect(int(cupy.arange(1 << 20, dtype=cupy.int64).sum()) == (1 << 19) * ((1 << 20) - 1),
                 "a sum is wrong afterwards")
    trial.end()


if __name__ == "__main__":
    main()
