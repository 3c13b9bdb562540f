#pragma once

// Handles and structures of the CUDA driver API with the vendor's names and layouts (facts of cuda.h;
// cuda_abi_test compares sizes and offsets).

#include <cstddef>
#include <cstdint>

#include "driver/abi/cuda_enums.h"

namespace gpuman::driver::abi {

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
using CUdeviceptr = unsigned long long;
using CUdevice = int;
using CUmemGenericAllocationHandle = unsigned long long;

using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUlibrary = struct CUlib_st*;
using CUkernel = struct CUkern_st*;
using CUarray = struct CUarray_st*;
using CUmipmappedArray = struct CUmipmappedArray_st*;
using CUevent = struct CUevent_st*;
using CUstream = struct CUstream_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgreenCtx = struct CUgreenCtx_st*;

using CUhostFn = void (*)(void* user_data);
using CUstreamCallback = void (*)(CUstream stream, CUresult status, void* user_data);
using CUoccupancyB2DSize = std::size_t (*)(int block_size);

// Handles that name a default stream without being a stream.
inline const CUstream CU_STREAM_LEGACY = reinterpret_cast<CUstream>(std::uintptr_t{1});
inline const CUstream CU_STREAM_PER_THREAD = reinterpret_cast<CUstream>(std::uintptr_t{2});

inline constexpr CUdevice CU_DEVICE_CPU = -1;
inline constexpr CUdevice CU_DEVICE_INVALID = -2;

// Flags that the vendor declares as macros.
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_WRITECOMBINED = 4;
inline constexpr unsigned CU_MEMHOSTREGISTER_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTREGISTER_DEVICEMAP = 2;
inline constexpr unsigned CU_MEMHOSTREGISTER_IOMEMORY = 4;
inline constexpr unsigned CU_MEMHOSTREGISTER_READ_ONLY = 8;
inline constexpr unsigned CUDA_ARRAY3D_LAYERED = 1;
inline constexpr unsigned CUDA_ARRAY3D_SURFACE_LDST = 2;
inline constexpr unsigned CUDA_ARRAY3D_CUBEMAP = 4;
// The three markers of cuLaunchKernel's `extra`.
inline void* const CU_LAUNCH_PARAM_END = nullptr;
inline void* const CU_LAUNCH_PARAM_BUFFER_POINTER = reinterpret_cast<void*>(std::uintptr_t{1});
inline void* const CU_LAUNCH_PARAM_BUFFER_SIZE = reinterpret_cast<void*>(std::uintptr_t{2});

struct CUuuid_st {
  char bytes[16];
};
using CUuuid = CUuuid_st;

struct CUipcMemHandle_st {
  char reserved[64];
};
using CUipcMemHandle = CUipcMemHandle_st;

struct CUdevprop_st {
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int sharedMemPerBlock;
  int totalConstantMemory;
  int SIMDWidth;
  int memPitch;
  int regsPerBlock;
  int clockRate;
  int textureAlign;
};
using CUdevprop = CUdevprop_st;

// Only passed by pointer; the simulated driver accepts only a null pointer or a count of zero.
struct CUexecAffinityParam_st;
using CUexecAffinityParam = CUexecAffinityParam_st;
struct CUctxCigParam_st;

struct CUctxCreateParams_st {
  CUexecAffinityParam* execAffinityParams;
  int numExecAffinityParams;
  CUctxCigParam_st* cigParams;
};
using CUctxCreateParams = CUctxCreateParams_st;

struct CUmemLocation_st {
  CUmemLocationType type;
  int id;
};
using CUmemLocation = CUmemLocation_st;

struct CUmemAllocationProp_st {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
using CUmemAllocationProp = CUmemAllocationProp_st;

struct CUmemAccessDesc_st {
  CUmemLocation location;
  CUmemAccess_flags flags;
};
using CUmemAccessDesc = CUmemAccessDesc_st;

struct CUmemPoolProps_st {
  CUmemAllocationType allocType;
  CUmemAllocationHandleType handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char gpuDirectRDMACapable;
  unsigned char reserved[53];
};
using CUmemPoolProps = CUmemPoolProps_st;

struct CUmemcpyAttributes_st {
  CUmemcpySrcAccessOrder srcAccessOrder;
  CUmemLocation srcLocHint;
  CUmemLocation dstLocHint;
  unsigned int flags;
};
using CUmemcpyAttributes = CUmemcpyAttributes_st;

struct CUDA_ARRAY_DESCRIPTOR_st {
  std::size_t Width;
  std::size_t Height;
  CUarray_format Format;
  unsigned int NumChannels;
};
using CUDA_ARRAY_DESCRIPTOR = CUDA_ARRAY_DESCRIPTOR_st;

struct CUDA_ARRAY3D_DESCRIPTOR_st {
  std::size_t Width;
  std::size_t Height;
  std::size_t Depth;
  CUarray_format Format;
  unsigned int NumChannels;
  unsigned int Flags;
};
using CUDA_ARRAY3D_DESCRIPTOR = CUDA_ARRAY3D_DESCRIPTOR_st;

struct CUDA_ARRAY_MEMORY_REQUIREMENTS_st {
  std::size_t size;
  std::size_t alignment;
  unsigned int reserved[4];
};
using CUDA_ARRAY_MEMORY_REQUIREMENTS = CUDA_ARRAY_MEMORY_REQUIREMENTS_st;

struct CUDA_MEMCPY2D_st {
  std::size_t srcXInBytes;
  std::size_t srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes;
  std::size_t dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes;
  std::size_t Height;
};
using CUDA_MEMCPY2D = CUDA_MEMCPY2D_st;

struct CUDA_MEMCPY3D_st {
  std::size_t srcXInBytes;
  std::size_t srcY;
  std::size_t srcZ;
  std::size_t srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  void* reserved0;
  std::size_t srcPitch;
  std::size_t srcHeight;
  std::size_t dstXInBytes;
  std::size_t dstY;
  std::size_t dstZ;
  std::size_t dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  void* reserved1;
  std::size_t dstPitch;
  std::size_t dstHeight;
  std::size_t WidthInBytes;
  std::size_t Height;
  std::size_t Depth;
};
using CUDA_MEMCPY3D = CUDA_MEMCPY3D_st;

// Like CUDA_MEMCPY3D, with contexts in place of its reserved pointers.
struct CUDA_MEMCPY3D_PEER_st {
  std::size_t srcXInBytes;
  std::size_t srcY;
  std::size_t srcZ;
  std::size_t srcLOD;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  CUarray srcArray;
  CUcontext srcContext;
  std::size_t srcPitch;
  std::size_t srcHeight;
  std::size_t dstXInBytes;
  std::size_t dstY;
  std::size_t dstZ;
  std::size_t dstLOD;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  CUarray dstArray;
  CUcontext dstContext;
  std::size_t dstPitch;
  std::size_t dstHeight;
  std::size_t WidthInBytes;
  std::size_t Height;
  std::size_t Depth;
};
using CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D_PEER_st;

// Wait and write have the same layout; `operation` tells which it is.
union CUstreamBatchMemOpParams_union {
  CUstreamBatchMemOpType operation;
  struct {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    cuuint64_t value64;  // the low half for the 32-bit operations
    unsigned int flags;
    CUdeviceptr alias;
  } waitValue;
  cuuint64_t pad[6];
};
using CUstreamBatchMemOpParams = CUstreamBatchMemOpParams_union;

union CUlaunchAttributeValue_union {
  char pad[64];
  int cooperative;
  struct {
    unsigned int x;
    unsigned int y;
    unsigned int z;
  } clusterDim;
  int priority;
  void* align;
};
using CUlaunchAttributeValue = CUlaunchAttributeValue_union;
using CUstreamAttrID = CUlaunchAttributeID;
using CUstreamAttrValue = CUlaunchAttributeValue;

struct CUlaunchAttribute_st {
  CUlaunchAttributeID id;
  char pad[8 - sizeof(CUlaunchAttributeID)];
  CUlaunchAttributeValue value;
};
using CUlaunchAttribute = CUlaunchAttribute_st;

struct CUlaunchConfig_st {
  unsigned int gridDimX;
  unsigned int gridDimY;
  unsigned int gridDimZ;
  unsigned int blockDimX;
  unsigned int blockDimY;
  unsigned int blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};
using CUlaunchConfig = CUlaunchConfig_st;

struct CUgraphEdgeData_st {
  unsigned char from_port;
  unsigned char to_port;
  unsigned char type;
  unsigned char reserved[5];
};
using CUgraphEdgeData = CUgraphEdgeData_st;

struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
  cuuint64_t flags;
  CUstream hUploadStream;
  CUgraphNode hErrNode_out;
  CUgraphInstantiateResult result_out;
};
using CUDA_GRAPH_INSTANTIATE_PARAMS = CUDA_GRAPH_INSTANTIATE_PARAMS_st;

struct CUcheckpointGpuPair_st {
  CUuuid oldUuid;
  CUuuid newUuid;
};
using CUcheckpointGpuPair = CUcheckpointGpuPair_st;

// The four argument structures have 64 bytes; the fields without a name here are zero. Newer headers name
// more of the reserved part.
struct CUcheckpointLockArgs_st {
  unsigned int timeoutMs;  // 0 waits without limit
  unsigned int reserved0;
  cuuint64_t reserved1[7];
};
using CUcheckpointLockArgs = CUcheckpointLockArgs_st;

struct CUcheckpointCheckpointArgs_st {
  cuuint64_t reserved[8];
};
using CUcheckpointCheckpointArgs = CUcheckpointCheckpointArgs_st;

struct CUcheckpointRestoreArgs_st {
  CUcheckpointGpuPair* gpuPairs;
  unsigned int gpuPairsCount;
  unsigned int padding0;
  cuuint64_t reserved[6];
};
using CUcheckpointRestoreArgs = CUcheckpointRestoreArgs_st;

struct CUcheckpointUnlockArgs_st {
  cuuint64_t reserved[8];
};
using CUcheckpointUnlockArgs = CUcheckpointUnlockArgs_st;

}  // namespace gpuman::driver::abi
