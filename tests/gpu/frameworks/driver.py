"""The CUDA driver through ctypes, as far as the programs here need it without a framework."""

import ctypes

u64, size_t, pointer = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p


class DriverError(Exception):
    OUT_OF_MEMORY = 2

    def __init__(self, call, status):
        super().__init__(f"{call}: CUDA error {status}")
        self.status = status


class Device:
    """Makes the primary context of device 0 current on this thread."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context = pointer()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            raise DriverError(name, status)

    def memory(self):
        free, total = size_t(), size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size):
        address = u64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), size_t(size))
        return address.value

    def free(self, address):
        self._call("cuMemFree_v2", u64(address))

    def write(self, address, data):
        self._call("cuMemcpyHtoD_v2", u64(address), data, size_t(len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self._call("cuMemcpyDtoH_v2", data, u64(address), size_t(size))
        return data.raw

    def fill(self, address, value, words):
        self._call("cuMemsetD32_v2", u64(address), ctypes.c_uint(value), size_t(words))

    def synchronize(self):
        self._call("cuCtxSynchronize")
