// Compares our declarations of the CUDA driver API with the vendor's cuda.h (CUDA 13.1 or newer). Types are
// compared by their spelling, without our namespace. It is built only if GPUMAN_VENDOR_HEADERS names the
// header's folder.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "driver/abi/cuda.h"

#define __CUDA_API_VERSION_INTERNAL  // all versions and twins, under their exported names
#include <cuda.h>

namespace gpuman::driver::abi {
namespace {

template <typename T>
std::string Spelling() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  std::string text(
      name.substr(0, name.find_last_of(';') != std::string_view::npos ? name.find(';') : name.rfind(']')));
  constexpr std::string_view kOurs = "gpuman::driver::abi::";
  for (std::size_t at = 0; (at = text.find(kOurs)) != std::string::npos;) text.erase(at, kOurs.size());
  return text;
}

TEST(CudaAbi, EveryFunctionHasTheVendorsType) {
#define GPUMAN_CHECK(name, symbol, version, twin, parameters, arguments) \
  EXPECT_EQ(Spelling<fn::symbol>(), Spelling<decltype(::symbol)>()) << #symbol;
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_CHECK)
#undef GPUMAN_CHECK
}

TEST(CudaAbi, EveryTwinExistsWithTheSameType) {
#define GPUMAN_CHECK_NONE(symbol)
#define GPUMAN_CHECK_PTDS(symbol) \
  EXPECT_EQ(Spelling<fn::symbol>(), Spelling<decltype(::symbol##_ptds)>()) << #symbol;
#define GPUMAN_CHECK_PTSZ(symbol) \
  EXPECT_EQ(Spelling<fn::symbol>(), Spelling<decltype(::symbol##_ptsz)>()) << #symbol;
#define GPUMAN_CHECK(name, symbol, version, twin, parameters, arguments) GPUMAN_CHECK_##twin(symbol)
  GPUMAN_CUDA_FUNCTIONS(GPUMAN_CHECK)
#undef GPUMAN_CHECK
}

TEST(CudaAbi, EveryResultHasTheVendorsValue) {
#define GPUMAN_CHECK(name, value) EXPECT_EQ(static_cast<int>(::name), value) << #name;
  GPUMAN_CUDA_RESULTS(GPUMAN_CHECK)
#undef GPUMAN_CHECK
}

#define GPUMAN_SAME_VALUE(name) static_assert(static_cast<long long>(name) == static_cast<long long>(::name))
#include "cuda_abi_values.inc"  // one for each enumerator of cuda_enums.h; made by CMake

#define GPUMAN_SAME_SIZE(type) \
  static_assert(sizeof(type) == sizeof(::type) && alignof(type) == alignof(::type))
#define GPUMAN_SAME_FIELD(type, field)                              \
  static_assert(offsetof(type, field) == offsetof(::type, field) && \
                sizeof(type::field) == sizeof(::type::field))
GPUMAN_SAME_SIZE(CUuuid_st);
GPUMAN_SAME_FIELD(CUuuid_st, bytes);
GPUMAN_SAME_SIZE(CUipcMemHandle_st);
GPUMAN_SAME_SIZE(CUdevprop_st);
GPUMAN_SAME_FIELD(CUdevprop_st, maxThreadsPerBlock);
GPUMAN_SAME_FIELD(CUdevprop_st, maxThreadsDim);
GPUMAN_SAME_FIELD(CUdevprop_st, maxGridSize);
GPUMAN_SAME_FIELD(CUdevprop_st, sharedMemPerBlock);
GPUMAN_SAME_FIELD(CUdevprop_st, totalConstantMemory);
GPUMAN_SAME_FIELD(CUdevprop_st, SIMDWidth);
GPUMAN_SAME_FIELD(CUdevprop_st, memPitch);
GPUMAN_SAME_FIELD(CUdevprop_st, regsPerBlock);
GPUMAN_SAME_FIELD(CUdevprop_st, clockRate);
GPUMAN_SAME_FIELD(CUdevprop_st, textureAlign);
GPUMAN_SAME_SIZE(CUctxCreateParams_st);
GPUMAN_SAME_FIELD(CUctxCreateParams_st, execAffinityParams);
GPUMAN_SAME_FIELD(CUctxCreateParams_st, numExecAffinityParams);
GPUMAN_SAME_FIELD(CUctxCreateParams_st, cigParams);
GPUMAN_SAME_SIZE(CUmemLocation_st);
GPUMAN_SAME_FIELD(CUmemLocation_st, type);
GPUMAN_SAME_FIELD(CUmemLocation_st, id);
GPUMAN_SAME_SIZE(CUmemAllocationProp_st);
GPUMAN_SAME_FIELD(CUmemAllocationProp_st, type);
GPUMAN_SAME_FIELD(CUmemAllocationProp_st, requestedHandleTypes);
GPUMAN_SAME_FIELD(CUmemAllocationProp_st, location);
GPUMAN_SAME_FIELD(CUmemAllocationProp_st, win32HandleMetaData);
GPUMAN_SAME_FIELD(CUmemAllocationProp_st, allocFlags);
GPUMAN_SAME_SIZE(CUmemAccessDesc_st);
GPUMAN_SAME_FIELD(CUmemAccessDesc_st, location);
GPUMAN_SAME_FIELD(CUmemAccessDesc_st, flags);
GPUMAN_SAME_SIZE(CUmemPoolProps_st);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, allocType);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, handleTypes);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, location);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, win32SecurityAttributes);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, maxSize);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, usage);
GPUMAN_SAME_FIELD(CUmemPoolProps_st, gpuDirectRDMACapable);
GPUMAN_SAME_SIZE(CUmemcpyAttributes_st);
GPUMAN_SAME_FIELD(CUmemcpyAttributes_st, srcAccessOrder);
GPUMAN_SAME_FIELD(CUmemcpyAttributes_st, srcLocHint);
GPUMAN_SAME_FIELD(CUmemcpyAttributes_st, dstLocHint);
GPUMAN_SAME_FIELD(CUmemcpyAttributes_st, flags);
GPUMAN_SAME_SIZE(CUDA_ARRAY_DESCRIPTOR_st);
GPUMAN_SAME_FIELD(CUDA_ARRAY_DESCRIPTOR_st, Width);
GPUMAN_SAME_FIELD(CUDA_ARRAY_DESCRIPTOR_st, Height);
GPUMAN_SAME_FIELD(CUDA_ARRAY_DESCRIPTOR_st, Format);
GPUMAN_SAME_FIELD(CUDA_ARRAY_DESCRIPTOR_st, NumChannels);
GPUMAN_SAME_SIZE(CUDA_ARRAY3D_DESCRIPTOR_st);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, Width);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, Height);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, Depth);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, Format);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, NumChannels);
GPUMAN_SAME_FIELD(CUDA_ARRAY3D_DESCRIPTOR_st, Flags);
GPUMAN_SAME_SIZE(CUDA_ARRAY_MEMORY_REQUIREMENTS_st);
GPUMAN_SAME_FIELD(CUDA_ARRAY_MEMORY_REQUIREMENTS_st, size);
GPUMAN_SAME_FIELD(CUDA_ARRAY_MEMORY_REQUIREMENTS_st, alignment);
GPUMAN_SAME_SIZE(CUDA_MEMCPY2D_st);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, srcPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, dstPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, WidthInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY2D_st, Height);
GPUMAN_SAME_SIZE(CUDA_MEMCPY3D_st);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcZ);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcLOD);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, srcHeight);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstZ);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstLOD);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, dstHeight);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, WidthInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, Height);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_st, Depth);
GPUMAN_SAME_SIZE(CUDA_MEMCPY3D_PEER_st);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcZ);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcLOD);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcContext);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, srcHeight);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstXInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstY);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstZ);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstLOD);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstMemoryType);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstHost);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstDevice);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstArray);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstContext);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstPitch);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, dstHeight);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, WidthInBytes);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, Height);
GPUMAN_SAME_FIELD(CUDA_MEMCPY3D_PEER_st, Depth);
GPUMAN_SAME_SIZE(CUlaunchAttribute_st);
GPUMAN_SAME_FIELD(CUlaunchAttribute_st, id);
GPUMAN_SAME_FIELD(CUlaunchAttribute_st, value);
GPUMAN_SAME_SIZE(CUlaunchConfig_st);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, gridDimX);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, gridDimY);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, gridDimZ);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, blockDimX);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, blockDimY);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, blockDimZ);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, sharedMemBytes);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, hStream);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, attrs);
GPUMAN_SAME_FIELD(CUlaunchConfig_st, numAttrs);
GPUMAN_SAME_SIZE(CUgraphEdgeData_st);
GPUMAN_SAME_FIELD(CUgraphEdgeData_st, from_port);
GPUMAN_SAME_FIELD(CUgraphEdgeData_st, to_port);
GPUMAN_SAME_FIELD(CUgraphEdgeData_st, type);
GPUMAN_SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS_st);
GPUMAN_SAME_FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, flags);
GPUMAN_SAME_FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, hUploadStream);
GPUMAN_SAME_FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, hErrNode_out);
GPUMAN_SAME_FIELD(CUDA_GRAPH_INSTANTIATE_PARAMS_st, result_out);
GPUMAN_SAME_SIZE(CUcheckpointGpuPair_st);
GPUMAN_SAME_FIELD(CUcheckpointGpuPair_st, oldUuid);
GPUMAN_SAME_FIELD(CUcheckpointGpuPair_st, newUuid);
GPUMAN_SAME_SIZE(CUcheckpointLockArgs_st);
GPUMAN_SAME_FIELD(CUcheckpointLockArgs_st, timeoutMs);
GPUMAN_SAME_SIZE(CUcheckpointCheckpointArgs_st);
GPUMAN_SAME_SIZE(CUcheckpointRestoreArgs_st);
GPUMAN_SAME_FIELD(CUcheckpointRestoreArgs_st, gpuPairs);
GPUMAN_SAME_FIELD(CUcheckpointRestoreArgs_st, gpuPairsCount);
GPUMAN_SAME_SIZE(CUcheckpointUnlockArgs_st);
GPUMAN_SAME_SIZE(CUstreamBatchMemOpParams_union);
GPUMAN_SAME_SIZE(CUlaunchAttributeValue_union);

}  // namespace
}  // namespace gpuman::driver::abi
