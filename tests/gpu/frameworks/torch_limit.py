#!/usr/bin/env python3
"""PyTorch asks for more than its limit, gets its own error, frees, and goes on."""

import gc
import os

import torch

from common import GIB, Trial, fill, limit_arguments


def main():
    arguments = limit_arguments(__doc__).parse_args()
    trial = Trial("torch", arguments)
    backend = torch.cuda.get_allocator_backend()
    trial.note(backend=backend, settings=os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    free, total = torch.cuda.mem_get_info()
    told = torch.cuda.get_device_properties(0).total_memory
    trial.note(total=total, free=free, properties_total=told)
    trial.expect(total == arguments.limit, f"mem_get_info says {total}")
    trial.expect(told == arguments.limit, f"the device's properties say {told}")

    def take():
        return torch.zeros(arguments.step, dtype=torch.uint8, device="cuda")

    def ended(error):
        return isinstance(error, torch.cuda.OutOfMemoryError)

    for _ in range(2):
        blocks, error = fill(take, ended, arguments.limit // arguments.step + 1)
        trial.expect(error is not None, "never out of memory")
        text = str(error)
        error = None  # its traceback refers to what take() was about to return
        trial.filled(len(blocks) * arguments.step, "torch.cuda.OutOfMemoryError")
        trial.note(message=text.splitlines()[0] if text else "")
        blocks.pop()  # makes room for the sum; earlier blocks still work
        # The sum would make a copy of eight times the size.
        trial.expect(not bool(blocks[0].any()) and not bool(blocks[-1].any()), "zeros are no zeros")
        blocks.clear()
        gc.collect()
        torch.cuda.empty_cache()

    try:
        torch.empty(arguments.limit + GIB, dtype=torch.uint8, device="cuda")
        trial.expect(False, "more than the limit at once was given")
    except torch.cuda.OutOfMemoryError:
        pass
    a = torch.full((2048, 2048), 0.5, device="cuda")
    product = a @ a
    trial.expect(bool((product == 512).all()), "a product is wrong afterwards")
    torch.cuda.synchronize()
    trial.end()


if __name__ == "__main__":
    main()
