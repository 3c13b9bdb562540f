#!/usr/bin/env python3
"""The same with the CUDA driver alone, through ctypes: needs no framework, so it runs on the simulated driver too."""

from common import GIB, Trial, fill, limit_arguments
from driver import Device, DriverError


def main():
    arguments = limit_arguments(__doc__).parse_args()
    trial = Trial("driver", arguments)
    device = Device()
    free, total = device.memory()
    trial.note(total=total, free=free)
    trial.expect(total == arguments.limit, f"cuMemGetInfo says {total}")

    def ended(error):
        return isinstance(error, DriverError) and error.status == DriverError.OUT_OF_MEMORY

    for _ in range(2):
        blocks, error = fill(lambda: device.allocate(arguments.step), ended, arguments.limit // arguments.step + 1)
        trial.expect(error is not None, "never out of memory")
        trial.filled(len(blocks) * arguments.step, str(error))
        device.write(blocks[-1], b"data")
        trial.expect(device.read(blocks[-1], 4) == b"data", "memory does not keep what is written")
        for block in blocks:
            device.free(block)
    try:
        device.allocate(arguments.limit + GIB)
        trial.expect(False, "more than the limit at once was given")
    except DriverError as error:
        trial.expect(ended(error), str(error))
    trial.end()


if __name__ == "__main__":
    main()
