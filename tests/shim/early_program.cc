// A program that uses CUDA before main, in the constructor of a static object, and after main, in its
// destructor. Linked with the driver.
#include <cstdio>

#include "driver/abi/cuda.h"

namespace gpuman::driver::abi {
extern "C" {
fn::cuInit cuInit;
fn::cuCtxCreate_v2 cuCtxCreate_v2;
fn::cuMemAlloc_v2 cuMemAlloc_v2;
fn::cuMemFree_v2 cuMemFree_v2;
}
}  // namespace gpuman::driver::abi

using namespace gpuman::driver::abi;  // NOLINT(google-build-using-namespace)

namespace {

struct Early {
  Early() {
    CUcontext context = nullptr;
    CUdeviceptr none = 0;
    ready = cuInit(0) == CUDA_SUCCESS && cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS;
    status = static_cast<int>(cuMemAlloc_v2(&pointer, 1 << 26));
    beyond = static_cast<int>(cuMemAlloc_v2(&none, std::size_t{1} << 35));
  }
  ~Early() { std::printf("\"freed\": %d}\n", static_cast<int>(cuMemFree_v2(pointer))); }
  bool ready = false;
  CUdeviceptr pointer = 0;
  int status = -1, beyond = -1;
};

Early early;

}  // namespace

int main() {
  std::printf("{\"ready\": %s, \"status\": %d, \"beyond\": %d, ", early.ready ? "true" : "false",
              early.status, early.beyond);
  return 0;
}
