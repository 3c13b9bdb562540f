// Every entry point of the driver that gpuman knows (src/driver/abi), and what the shim does with it. A test
// compares both lists: it fails when an entry point is in no class.
//
// Classes: kAllocate takes device memory, kFree gives memory back (also by a wait, after which a pool gives
// memory back), kSubmit gives work to the GPU, kQuery tells sizes or what memory is, kContext makes, ends or
// chooses contexts, kPass does none of these.
#pragma once

namespace gpuman::shim {

enum class EntryClass { kAllocate, kFree, kSubmit, kQuery, kContext, kPass };

}  // namespace gpuman::shim

// clang-format off

// Functions that the shim replaces, X(symbol, class, twin). The twin, the same function with the per-thread
// default stream, is replaced as well.
#define GPUMAN_SHIM_HOOKED(X) \
  X(cuGetProcAddress, kPass, NONE) \
  X(cuGetProcAddress_v2, kPass, NONE) \
  X(cuDeviceTotalMem_v2, kQuery, NONE) \
  X(cuMemGetInfo_v2, kQuery, NONE) \
  X(cuDevicePrimaryCtxRetain, kContext, NONE) \
  X(cuDevicePrimaryCtxRelease, kContext, NONE) \
  X(cuDevicePrimaryCtxRelease_v2, kContext, NONE) \
  X(cuDevicePrimaryCtxReset, kContext, NONE) \
  X(cuDevicePrimaryCtxReset_v2, kContext, NONE) \
  X(cuCtxCreate_v2, kContext, NONE) \
  X(cuCtxCreate_v3, kContext, NONE) \
  X(cuCtxCreate_v4, kContext, NONE) \
  X(cuCtxDestroy_v2, kContext, NONE) \
  X(cuCtxDetach, kContext, NONE) \
  X(cuMemAlloc_v2, kAllocate, NONE) \
  X(cuMemAllocPitch_v2, kAllocate, NONE) \
  X(cuMemAllocManaged, kAllocate, NONE) \
  X(cuMemAllocAsync, kAllocate, PTSZ) \
  X(cuMemAllocFromPoolAsync, kAllocate, PTSZ) \
  X(cuMemPoolCreate, kAllocate, NONE) \
  X(cuMemCreate, kAllocate, NONE) \
  X(cuMemRetainAllocationHandle, kAllocate, NONE) \
  X(cuMemImportFromShareableHandle, kAllocate, NONE) \
  X(cuMemMap, kAllocate, NONE) \
  X(cuArrayCreate_v2, kAllocate, NONE) \
  X(cuArray3DCreate_v2, kAllocate, NONE) \
  X(cuMipmappedArrayCreate, kAllocate, NONE) \
  X(cuCtxSynchronize, kFree, NONE) \
  X(cuCtxSynchronize_v2, kFree, NONE) \
  X(cuMemFree_v2, kFree, NONE) \
  X(cuMemFreeAsync, kFree, PTSZ) \
  X(cuMemPoolDestroy, kFree, NONE) \
  X(cuMemPoolTrimTo, kFree, NONE) \
  X(cuMemRelease, kFree, NONE) \
  X(cuMemUnmap, kFree, NONE) \
  X(cuArrayDestroy, kFree, NONE) \
  X(cuMipmappedArrayDestroy, kFree, NONE) \
  X(cuStreamSynchronize, kFree, PTSZ) \
  X(cuEventSynchronize, kFree, NONE)

// Functions of NVML that the shim replaces, X(symbol, class).
#define GPUMAN_SHIM_HOOKED_NVML(X) \
  X(nvmlDeviceGetMemoryInfo, kQuery) \
  X(nvmlDeviceGetMemoryInfo_v2, kQuery)

// Functions that the shim replaces only in a process whose memory can leave the GPU: only there the shim has
// something to say. All of them pass the gate (gate.h). Functions that open another process's memory allocate
// nothing here: the process that made the memory counts it.
#define GPUMAN_SHIM_BACKED(X) \
  X(cuMemGetAddressRange_v2, kQuery, NONE) \
  X(cuPointerGetAttribute, kQuery, NONE) \
  X(cuPointerGetAttributes, kQuery, NONE) \
  X(cuMemGetAllocationPropertiesFromHandle, kQuery, NONE) \
  X(cuMemExportToShareableHandle, kPass, NONE) \
  X(cuMemGetHandleForAddressRange, kPass, NONE) \
  X(cuMemPoolGetAttribute, kQuery, NONE) \
  X(cuMemPoolSetAttribute, kPass, NONE) \
  X(cuMemPoolSetAccess, kPass, NONE) \
  X(cuIpcGetMemHandle, kPass, NONE) \
  X(cuIpcOpenMemHandle, kAllocate, NONE) \
  X(cuIpcOpenMemHandle_v2, kAllocate, NONE) \
  X(cuIpcCloseMemHandle, kFree, NONE) \
  X(cuMulticastBindMem, kPass, NONE) \
  X(cuMulticastBindMem_v2, kPass, NONE) \
  X(cuMulticastBindAddr, kPass, NONE) \
  X(cuMulticastBindAddr_v2, kPass, NONE) \
  X(cuStreamBeginCapture, kPass, PTSZ) \
  X(cuStreamBeginCapture_v2, kPass, PTSZ) \
  X(cuStreamBeginCaptureToGraph, kPass, PTSZ) \
  X(cuStreamEndCapture, kPass, PTSZ)

// Functions of the driver that pass the gate in such a process and have no body of the shim: they submit
// work, allocate, free or ask. In other processes a program gets the driver's address. Functions that load
// code or instantiate a graph take bytes that the driver does not tell. They are uncounted memory: the daemon
// takes them from the limit (`outside` in the ledger).
#define GPUMAN_SHIM_GATED(X) \
  X(cuModuleLoad, kAllocate, NONE) \
  X(cuModuleLoadData, kAllocate, NONE) \
  X(cuModuleLoadDataEx, kAllocate, NONE) \
  X(cuModuleLoadFatBinary, kAllocate, NONE) \
  X(cuLibraryLoadData, kAllocate, NONE) \
  X(cuLibraryLoadFromFile, kAllocate, NONE) \
  X(cuFuncLoad, kAllocate, NONE) \
  X(cuGraphInstantiate, kAllocate, NONE) \
  X(cuGraphInstantiate_v2, kAllocate, NONE) \
  X(cuGraphInstantiateWithFlags, kAllocate, NONE) \
  X(cuGraphInstantiateWithParams, kAllocate, PTSZ) \
  X(cuDeviceGraphMemTrim, kFree, NONE) \
  X(cuModuleUnload, kFree, NONE) \
  X(cuLibraryUnload, kFree, NONE) \
  X(cuGraphExecDestroy, kFree, NONE) \
  X(cuLaunchKernel, kSubmit, PTSZ) \
  X(cuLaunchKernelEx, kSubmit, PTSZ) \
  X(cuLaunchCooperativeKernel, kSubmit, PTSZ) \
  X(cuLaunchHostFunc, kSubmit, PTSZ) \
  X(cuLaunchHostFunc_v2, kSubmit, PTSZ) \
  X(cuMemPrefetchAsync, kSubmit, PTSZ) \
  X(cuMemPrefetchAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpy, kSubmit, PTDS) \
  X(cuMemcpyAsync, kSubmit, PTSZ) \
  X(cuMemcpyPeer, kSubmit, PTDS) \
  X(cuMemcpyPeerAsync, kSubmit, PTSZ) \
  X(cuMemcpyHtoD_v2, kSubmit, PTDS) \
  X(cuMemcpyHtoDAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpyDtoH_v2, kSubmit, PTDS) \
  X(cuMemcpyDtoHAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpyDtoD_v2, kSubmit, PTDS) \
  X(cuMemcpyDtoDAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpyDtoA_v2, kSubmit, PTDS) \
  X(cuMemcpyAtoD_v2, kSubmit, PTDS) \
  X(cuMemcpyHtoA_v2, kSubmit, PTDS) \
  X(cuMemcpyHtoAAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpyAtoH_v2, kSubmit, PTDS) \
  X(cuMemcpyAtoHAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpyAtoA_v2, kSubmit, PTDS) \
  X(cuMemcpy2D_v2, kSubmit, PTDS) \
  X(cuMemcpy2DUnaligned_v2, kSubmit, PTDS) \
  X(cuMemcpy2DAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpy3D_v2, kSubmit, PTDS) \
  X(cuMemcpy3DAsync_v2, kSubmit, PTSZ) \
  X(cuMemcpy3DPeer, kSubmit, PTDS) \
  X(cuMemcpy3DPeerAsync, kSubmit, PTSZ) \
  X(cuMemcpyBatchAsync, kSubmit, PTSZ) \
  X(cuMemcpyBatchAsync_v2, kSubmit, PTSZ) \
  X(cuMemsetD8_v2, kSubmit, PTDS) \
  X(cuMemsetD16_v2, kSubmit, PTDS) \
  X(cuMemsetD32_v2, kSubmit, PTDS) \
  X(cuMemsetD2D8_v2, kSubmit, PTDS) \
  X(cuMemsetD2D16_v2, kSubmit, PTDS) \
  X(cuMemsetD2D32_v2, kSubmit, PTDS) \
  X(cuMemsetD8Async, kSubmit, PTSZ) \
  X(cuMemsetD16Async, kSubmit, PTSZ) \
  X(cuMemsetD32Async, kSubmit, PTSZ) \
  X(cuMemsetD2D8Async, kSubmit, PTSZ) \
  X(cuMemsetD2D16Async, kSubmit, PTSZ) \
  X(cuMemsetD2D32Async, kSubmit, PTSZ) \
  X(cuStreamAddCallback, kSubmit, PTSZ) \
  X(cuStreamWriteValue32, kSubmit, PTSZ) \
  X(cuStreamWriteValue32_v2, kSubmit, PTSZ) \
  X(cuStreamWriteValue64, kSubmit, PTSZ) \
  X(cuStreamWriteValue64_v2, kSubmit, PTSZ) \
  X(cuStreamWaitValue32, kSubmit, PTSZ) \
  X(cuStreamWaitValue32_v2, kSubmit, PTSZ) \
  X(cuStreamWaitValue64, kSubmit, PTSZ) \
  X(cuStreamWaitValue64_v2, kSubmit, PTSZ) \
  X(cuStreamBatchMemOp, kSubmit, PTSZ) \
  X(cuStreamBatchMemOp_v2, kSubmit, PTSZ) \
  X(cuEventRecord, kSubmit, PTSZ) \
  X(cuEventRecordWithFlags, kSubmit, PTSZ) \
  X(cuGraphUpload, kSubmit, PTSZ) \
  X(cuGraphLaunch, kSubmit, PTSZ) \
  X(cuCtxSetLimit, kContext, NONE) \
  X(cuCtxEnablePeerAccess, kContext, NONE) \
  X(cuCtxDisablePeerAccess, kContext, NONE) \
  X(cuPointerSetAttribute, kPass, NONE) \
  X(cuMemAddressFree, kPass, NONE) \
  X(cuMemSetAccess, kPass, NONE) \
  X(cuMemGetAccess, kQuery, NONE)

// Functions that only ask, or make and end what is no memory of a GPU. They pass the closed gate of a process that is
// held for another job's turn, but not of one that is suspended and may be checkpointed: the driver blocks most of
// them then, where nobody would see that the program wants to go on; and cuStreamQuery, cuEventQuery and
// cuEventElapsedTime end the process with SIGSEGV (measured, each in a process of its own: driver 580.159.04, H200).
// Their like, which were not measured, are in the list as well.
#define GPUMAN_SHIM_ASIDE(X) \
  X(cuStreamQuery, kPass, PTSZ) \
  X(cuEventQuery, kPass, NONE) \
  X(cuEventElapsedTime, kPass, NONE) \
  X(cuEventElapsedTime_v2, kPass, NONE) \
  X(cuEventCreate, kPass, NONE) \
  X(cuEventDestroy_v2, kPass, NONE) \
  X(cuStreamCreate, kPass, NONE) \
  X(cuStreamCreateWithPriority, kPass, NONE) \
  X(cuStreamDestroy_v2, kPass, NONE) \
  X(cuMemAllocHost_v2, kPass, NONE) \
  X(cuMemHostAlloc, kPass, NONE) \
  X(cuMemFreeHost, kPass, NONE) \
  X(cuMemHostRegister, kPass, NONE) \
  X(cuMemHostRegister_v2, kPass, NONE) \
  X(cuMemHostUnregister, kPass, NONE) \
  X(cuDeviceGetDefaultMemPool, kPass, NONE) \
  X(cuDeviceGetMemPool, kPass, NONE) \
  X(cuCtxGetLimit, kPass, NONE) \
  X(cuFuncSetAttribute, kPass, NONE) \
  X(cuFuncSetCacheConfig, kPass, NONE) \
  X(cuFuncSetSharedMemConfig, kPass, NONE) \
  X(cuModuleGetFunction, kPass, NONE) \
  X(cuModuleGetGlobal_v2, kPass, NONE) \
  X(cuLibraryGetKernel, kPass, NONE) \
  X(cuLibraryGetModule, kPass, NONE) \
  X(cuLibraryGetGlobal, kPass, NONE) \
  X(cuKernelGetFunction, kPass, NONE) \
  X(cuKernelSetAttribute, kPass, NONE) \
  X(cuKernelSetCacheConfig, kPass, NONE) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, kPass, NONE) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, kPass, NONE) \
  X(cuOccupancyMaxPotentialBlockSize, kPass, NONE) \
  X(cuOccupancyMaxPotentialBlockSizeWithFlags, kPass, NONE) \
  X(cuOccupancyAvailableDynamicSMemPerBlock, kPass, NONE) \
  X(cuCtxGetCacheConfig, kPass, NONE) \
  X(cuCtxSetCacheConfig, kPass, NONE) \
  X(cuCtxGetSharedMemConfig, kPass, NONE) \
  X(cuCtxSetSharedMemConfig, kPass, NONE) \
  X(cuCtxResetPersistingL2Cache, kPass, NONE) \
  X(cuStreamGetAttribute, kPass, PTSZ) \
  X(cuStreamSetAttribute, kPass, PTSZ) \
  X(cuStreamCopyAttributes, kPass, PTSZ) \
  X(cuStreamAttachMemAsync, kPass, PTSZ)

// Functions that the shim calls itself and never replaces.
#define GPUMAN_SHIM_SERVICES(X) \
  X(cuArrayGetMemoryRequirements) \
  X(cuCtxGetCurrent) \
  X(cuCtxGetDevice) \
  X(cuCtxPopCurrent_v2) \
  X(cuCtxPushCurrent_v2) \
  X(cuDeviceCanAccessPeer) \
  X(cuDeviceGetAttribute) \
  X(cuDeviceGetCount) \
  X(cuDeviceGetUuid) \
  X(cuDeviceGetUuid_v2) \
  X(cuDevicePrimaryCtxGetState) \
  X(cuMemAddressReserve) \
  X(cuMemGetAllocationGranularity) \
  X(cuMemHostGetDevicePointer_v2) \
  X(cuMipmappedArrayGetMemoryRequirements) \
  X(cuStreamGetCtx) \
  X(cuStreamGetId) \
  X(cuStreamIsCapturing) \
  X(cuStreamWaitEvent) \
  X(cuThreadExchangeStreamCaptureMode) \
  X(nvmlDeviceGetUUID)

// Functions that go to the driver untouched, X(symbol, class).
#define GPUMAN_SHIM_PLAIN(X) \
  X(cuDeviceGetGraphMemAttribute, kQuery) \
  X(cuDevicePrimaryCtxGetState, kQuery) \
  X(cuMemRangeGetAttribute, kQuery) \
  X(cuMemRangeGetAttributes, kQuery) \
  X(cuMemGetAllocationGranularity, kQuery) \
  X(cuArrayGetMemoryRequirements, kQuery) \
  X(cuMipmappedArrayGetMemoryRequirements, kQuery) \
  X(cuDevicePrimaryCtxSetFlags, kContext) \
  X(cuDevicePrimaryCtxSetFlags_v2, kContext) \
  X(cuCtxAttach, kContext) \
  X(cuCtxPushCurrent_v2, kContext) \
  X(cuCtxPopCurrent_v2, kContext) \
  X(cuCtxSetCurrent, kContext) \
  X(cuCtxSetFlags, kContext) \
  X(cuInit, kPass) \
  X(cuDriverGetVersion, kPass) \
  X(cuGetErrorName, kPass) \
  X(cuGetErrorString, kPass) \
  X(cuGetExportTable, kPass) \
  X(cuThreadExchangeStreamCaptureMode, kPass) \
  X(cuDeviceGet, kPass) \
  X(cuDeviceGetCount, kPass) \
  X(cuDeviceGetName, kPass) \
  X(cuDeviceGetUuid, kPass) \
  X(cuDeviceGetUuid_v2, kPass) \
  X(cuDeviceGetLuid, kPass) \
  X(cuDeviceGetAttribute, kPass) \
  X(cuDeviceComputeCapability, kPass) \
  X(cuDeviceGetProperties, kPass) \
  X(cuDeviceGetPCIBusId, kPass) \
  X(cuDeviceGetByPCIBusId, kPass) \
  X(cuDeviceCanAccessPeer, kPass) \
  X(cuDeviceGetP2PAttribute, kPass) \
  X(cuDeviceSetMemPool, kPass) \
  X(cuDeviceSetGraphMemAttribute, kPass) \
  X(cuCtxGetCurrent, kPass) \
  X(cuCtxGetDevice, kPass) \
  X(cuCtxGetDevice_v2, kPass) \
  X(cuCtxGetFlags, kPass) \
  X(cuCtxGetId, kPass) \
  X(cuCtxGetApiVersion, kPass) \
  X(cuCtxGetStreamPriorityRange, kPass) \
  X(cuModuleGetLoadingMode, kPass) \
  X(cuModuleGetFunctionCount, kPass) \
  X(cuModuleEnumerateFunctions, kPass) \
  X(cuLibraryGetKernelCount, kPass) \
  X(cuLibraryEnumerateKernels, kPass) \
  X(cuKernelGetLibrary, kPass) \
  X(cuKernelGetName, kPass) \
  X(cuKernelGetAttribute, kPass) \
  X(cuKernelGetParamInfo, kPass) \
  X(cuFuncGetAttribute, kPass) \
  X(cuFuncGetModule, kPass) \
  X(cuFuncGetName, kPass) \
  X(cuFuncGetParamInfo, kPass) \
  X(cuFuncIsLoaded, kPass) \
  X(cuMemAdvise, kPass) \
  X(cuMemAdvise_v2, kPass) \
  X(cuMemHostGetDevicePointer_v2, kPass) \
  X(cuMemHostGetFlags, kPass) \
  X(cuMemPoolGetAccess, kPass) \
  X(cuMemAddressReserve, kPass) \
  X(cuArrayGetDescriptor_v2, kPass) \
  X(cuArray3DGetDescriptor_v2, kPass) \
  X(cuMipmappedArrayGetLevel, kPass) \
  X(cuStreamGetPriority, kPass) \
  X(cuStreamGetFlags, kPass) \
  X(cuStreamGetId, kPass) \
  X(cuStreamGetCtx, kPass) \
  X(cuStreamGetCtx_v2, kPass) \
  X(cuStreamGetDevice, kPass) \
  X(cuStreamWaitEvent, kPass) \
  X(cuStreamIsCapturing, kPass) \
  X(cuStreamGetCaptureInfo, kPass) \
  X(cuStreamGetCaptureInfo_v2, kPass) \
  X(cuStreamGetCaptureInfo_v3, kPass) \
  X(cuGraphCreate, kPass) \
  X(cuGraphDestroy, kPass) \
  X(cuGraphGetNodes, kPass) \
  X(cuGraphNodeGetType, kPass) \
  X(cuCheckpointProcessLock, kPass) \
  X(cuCheckpointProcessCheckpoint, kPass) \
  X(cuCheckpointProcessRestore, kPass) \
  X(cuCheckpointProcessUnlock, kPass) \
  X(cuCheckpointProcessGetState, kPass) \
  X(cuCheckpointProcessGetRestoreThreadId, kPass)

// clang-format on
