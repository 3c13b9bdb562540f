// A plain program of the CUDA runtime asks for more than its limit with each family of allocation, gets the
// runtime's own error, frees, and continues: runtime_limit --limit BYTES. Prints one line of JSON; exit
// status 1 if something is wrong.
//
// It asks for managed memory in small pieces, and for at most twice the limit in all; limits.py ensures that
// the device has that much free.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Family {
  const char* name;
  size_t step;                                  // bytes of one take()
  std::function<cudaError_t(void** out)> take;  // touches the memory where a family allocates it only then
  std::function<cudaError_t(void* taken)> give;
};

std::string wrong;

void Wrong(const std::string& what) {
  if (!wrong.empty()) wrong += ", ";
  wrong += '"' + what + '"';
}

void Must(const char* what, cudaError_t result) {
  if (result != cudaSuccess) Wrong(std::string(what) + ": " + cudaGetErrorName(result));
}

// Takes memory until the limit, then frees all; returns the bytes that it got.
size_t Fill(const Family& family, size_t limit) {
  std::vector<void*> taken;
  cudaError_t result = cudaSuccess;
  for (size_t held = 0; held < 2 * limit; held += family.step) {
    void* out = nullptr;
    result = family.take(&out);
    if (result != cudaSuccess) break;
    taken.push_back(out);
  }
  if (result != cudaErrorMemoryAllocation)
    Wrong(std::string(family.name) + " ended with " + cudaGetErrorName(result));
  if (cudaGetLastError() == cudaSuccess && result != cudaSuccess)
    Wrong(std::string(family.name) + ": the error was not kept");
  for (void* each : taken) Must(family.name, family.give(each));
  Must("cudaDeviceSynchronize", cudaDeviceSynchronize());
  return taken.size() * family.step;
}

// Writes a word and reads it back, after all else.
void GoOn() {
  unsigned char* pointer = nullptr;
  unsigned char back = 0;
  Must("cudaMalloc", cudaMalloc(reinterpret_cast<void**>(&pointer), kMiB));
  Must("cudaMemset", cudaMemset(pointer, 0x5a, kMiB));
  Must("cudaMemcpy", cudaMemcpy(&back, pointer + kMiB - 1, 1, cudaMemcpyDeviceToHost));
  if (back != 0x5a) Wrong("a byte is wrong afterwards");
  Must("cudaFree", cudaFree(pointer));
}

cudaError_t TakePitch(void** out) {
  size_t pitch = 0;
  return cudaMallocPitch(out, &pitch, 60000, 1024);
}

cudaError_t Take3D(void** out) {
  cudaPitchedPtr pointer{};
  const cudaError_t result = cudaMalloc3D(&pointer, make_cudaExtent(4096, 256, 64));
  *out = pointer.ptr;
  return result;
}

cudaError_t TakeArray3D(void** out) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
  return cudaMalloc3DArray(reinterpret_cast<cudaArray_t*>(out), &format, make_cudaExtent(128, 256, 128));
}

cudaError_t TakeManaged(void** out) {
  const cudaError_t result = cudaMallocManaged(out, 16 * kMiB);
  return result == cudaSuccess ? cudaMemset(*out, 0, 16 * kMiB) : result;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 || std::strcmp(words[1], "--limit") != 0) return 2;
  const size_t limit = std::strtoull(words[2], nullptr, 10);
  size_t free = 0, total = 0;
  Must("cudaMemGetInfo", cudaMemGetInfo(&free, &total));
  if (total != limit) Wrong("cudaMemGetInfo says " + std::to_string(total));
  cudaDeviceProp properties{};
  Must("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0));
  if (properties.totalGlobalMem != limit)
    Wrong("the device's properties say " + std::to_string(properties.totalGlobalMem));

  const std::vector<Family> families = {
      {"cudaMalloc", 64 * kMiB, [](void** out) { return cudaMalloc(out, 64 * kMiB); }, cudaFree},
      {"cudaMallocAsync", 64 * kMiB, [](void** out) { return cudaMallocAsync(out, 64 * kMiB, nullptr); },
       [](void* taken) { return cudaFreeAsync(taken, nullptr); }},
      {"cudaMallocManaged", 16 * kMiB, TakeManaged, cudaFree},
      {"cudaMallocPitch", 60000 * 1024, TakePitch, cudaFree},
      {"cudaMalloc3D", 64 * kMiB, Take3D, cudaFree},
      {"cudaMalloc3DArray", 64 * kMiB, TakeArray3D,
       [](void* taken) { return cudaFreeArray(static_cast<cudaArray_t>(taken)); }},
  };
  std::string held, by_name;
  for (const Family& family : families) {
    const size_t most = Fill(family, limit);
    if (most > limit) Wrong(std::string(family.name) + " passed the limit: " + std::to_string(most));
    if (most < limit / 4) Wrong(std::string(family.name) + " came only to " + std::to_string(most));
    held += (held.empty() ? "" : ", ") + std::to_string(most);
    by_name += std::string(by_name.empty() ? "" : ", ") + '"' + family.name + "\": " + std::to_string(most);
    GoOn();
  }
  std::printf(
      "{\"program\": \"runtime\", \"limit\": %zu, \"total\": %zu, \"free\": %zu, \"held\": [%s], "
      "\"by_family\": {%s}, "
      "\"error\": \"cudaErrorMemoryAllocation\", \"ok\": %s, \"wrong\": [%s]}\n",
      limit, total, free, held.c_str(), by_name.c_str(), wrong.empty() ? "true" : "false", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}
