#pragma once

// The functions of the CUDA driver API that gpuman knows, one line each:
//
//   X(name, symbol, version, twin, parameters, arguments)
//
// `name` is the name to ask cuGetProcAddress for, `symbol` the symbol that libcuda.so.1 exports, `version`
// the CUDA version (1000 * major + 10 * minor, 12020 is 12.2) from which cuGetProcAddress gives this symbol
// for `name`. `twin` is the suffix of the twin that uses the per-thread default stream: NONE, PTDS
// (symbol_ptds) or PTSZ (symbol_ptsz). `arguments` repeats the parameters' names, for code that forwards a
// call. The 32-bit ABI of CUDA 3.0 and older is not listed. Source: cuda.h and cudaTypedefs.h of CUDA 12.9 to
// 13.5; cuda_abi_test compares the list with them.

// clang-format off

// start-up and errors
#define GPUMAN_CUDA_GENERAL(X) \
  X(cuInit, cuInit, 2000, NONE, (unsigned int flags), (flags)) \
  X(cuDriverGetVersion, cuDriverGetVersion, 2020, NONE, (int* driver_version), (driver_version)) \
  X(cuGetErrorName, cuGetErrorName, 6000, NONE, (CUresult error, const char** text), (error, text)) \
  X(cuGetErrorString, cuGetErrorString, 6000, NONE, (CUresult error, const char** text), (error, text)) \
  X(cuGetProcAddress, cuGetProcAddress, 11030, NONE, \
    (const char* symbol, void** out, int cuda_version, cuuint64_t flags), \
    (symbol, out, cuda_version, flags)) \
  X(cuGetProcAddress, cuGetProcAddress_v2, 12000, NONE, \
    (const char* symbol, void** out, int cuda_version, cuuint64_t flags, \
     CUdriverProcAddressQueryResult* symbol_status), \
    (symbol, out, cuda_version, flags, symbol_status)) \
  X(cuGetExportTable, cuGetExportTable, 3000, NONE, \
    (const void** export_table, const CUuuid* export_table_id), \
    (export_table, export_table_id)) \
  X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010, NONE, \
    (CUstreamCaptureMode* mode), \
    (mode))

// devices
#define GPUMAN_CUDA_DEVICE(X) \
  X(cuDeviceGet, cuDeviceGet, 2000, NONE, (CUdevice* device, int ordinal), (device, ordinal)) \
  X(cuDeviceGetCount, cuDeviceGetCount, 2000, NONE, (int* count), (count)) \
  X(cuDeviceGetName, cuDeviceGetName, 2000, NONE, \
    (char* name, int len, CUdevice device), \
    (name, len, device)) \
  X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, NONE, (CUuuid* uuid, CUdevice device), (uuid, device)) \
  X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, NONE, (CUuuid* uuid, CUdevice device), (uuid, device)) \
  X(cuDeviceGetLuid, cuDeviceGetLuid, 10000, NONE, \
    (char* luid, unsigned int* device_node_mask, CUdevice device), \
    (luid, device_node_mask, device)) \
  X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, NONE, (size_t* bytes, CUdevice device), (bytes, device)) \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, NONE, \
    (int* value, CUdevice_attribute attrib, CUdevice device), \
    (value, attrib, device)) \
  X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, NONE, \
    (int* major, int* minor, CUdevice device), \
    (major, minor, device)) \
  X(cuDeviceGetProperties, cuDeviceGetProperties, 2000, NONE, \
    (CUdevprop* prop, CUdevice device), \
    (prop, device)) \
  X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, NONE, \
    (char* pci_bus_id, int len, CUdevice device), \
    (pci_bus_id, len, device)) \
  X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, NONE, \
    (CUdevice* device, const char* pci_bus_id), \
    (device, pci_bus_id)) \
  X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, NONE, \
    (int* can_access_peer, CUdevice device, CUdevice peer), \
    (can_access_peer, device, peer)) \
  X(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, 8000, NONE, \
    (int* value, CUdevice_P2PAttribute attrib, CUdevice src, CUdevice dst), \
    (value, attrib, src, dst)) \
  X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, NONE, \
    (CUmemoryPool* pool_out, CUdevice device), \
    (pool_out, device)) \
  X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, NONE, \
    (CUmemoryPool* pool, CUdevice device), \
    (pool, device)) \
  X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, NONE, \
    (CUdevice device, CUmemoryPool pool), \
    (device, pool)) \
  X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040, NONE, \
    (CUdevice device, CUgraphMem_attribute attr, void* value), \
    (device, attr, value)) \
  X(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 11040, NONE, \
    (CUdevice device, CUgraphMem_attribute attr, void* value), \
    (device, attr, value)) \
  X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040, NONE, (CUdevice device), (device))

// contexts
#define GPUMAN_CUDA_CONTEXT(X) \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, NONE, \
    (CUcontext* out, CUdevice device), \
    (out, device)) \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, NONE, (CUdevice device), (device)) \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, 11000, NONE, (CUdevice device), (device)) \
  X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 7000, NONE, \
    (CUdevice device, unsigned int flags), \
    (device, flags)) \
  X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, 11000, NONE, \
    (CUdevice device, unsigned int flags), \
    (device, flags)) \
  X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, NONE, \
    (CUdevice device, unsigned int* flags, int* active), \
    (device, flags, active)) \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, NONE, (CUdevice device), (device)) \
  X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, NONE, (CUdevice device), (device)) \
  X(cuCtxCreate, cuCtxCreate_v2, 3020, NONE, \
    (CUcontext* out, unsigned int flags, CUdevice device), \
    (out, flags, device)) \
  X(cuCtxCreate, cuCtxCreate_v3, 11040, NONE, \
    (CUcontext* out, CUexecAffinityParam* params_array, int num_params, unsigned int flags, \
     CUdevice device), \
    (out, params_array, num_params, flags, device)) \
  X(cuCtxCreate, cuCtxCreate_v4, 12050, NONE, \
    (CUcontext* out, CUctxCreateParams* ctx_create_params, unsigned int flags, CUdevice device), \
    (out, ctx_create_params, flags, device)) \
  X(cuCtxDestroy, cuCtxDestroy_v2, 4000, NONE, (CUcontext context), (context)) \
  X(cuCtxAttach, cuCtxAttach, 2000, NONE, (CUcontext* out, unsigned int flags), (out, flags)) \
  X(cuCtxDetach, cuCtxDetach, 2000, NONE, (CUcontext context), (context)) \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, NONE, (CUcontext context), (context)) \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, NONE, (CUcontext* out), (out)) \
  X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, NONE, (CUcontext context), (context)) \
  X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, NONE, (CUcontext* out), (out)) \
  X(cuCtxGetDevice, cuCtxGetDevice, 2000, NONE, (CUdevice* device), (device)) \
  X(cuCtxGetDevice, cuCtxGetDevice_v2, 13000, NONE, \
    (CUdevice* device, CUcontext context), \
    (device, context)) \
  X(cuCtxGetFlags, cuCtxGetFlags, 7000, NONE, (unsigned int* flags), (flags)) \
  X(cuCtxSetFlags, cuCtxSetFlags, 12010, NONE, (unsigned int flags), (flags)) \
  X(cuCtxGetId, cuCtxGetId, 12000, NONE, (CUcontext context, unsigned long long* ctx_id), (context, ctx_id)) \
  X(cuCtxSynchronize, cuCtxSynchronize, 2000, NONE, (), ()) \
  X(cuCtxSynchronize, cuCtxSynchronize_v2, 13000, NONE, (CUcontext context), (context)) \
  X(cuCtxGetLimit, cuCtxGetLimit, 3010, NONE, (size_t* value, CUlimit limit), (value, limit)) \
  X(cuCtxSetLimit, cuCtxSetLimit, 3010, NONE, (CUlimit limit, size_t value), (limit, value)) \
  X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, NONE, \
    (CUcontext context, unsigned int* version), \
    (context, version)) \
  X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, NONE, (CUfunc_cache* config), (config)) \
  X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, NONE, (CUfunc_cache config), (config)) \
  X(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig, 4020, NONE, (CUsharedconfig* config), (config)) \
  X(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig, 4020, NONE, (CUsharedconfig config), (config)) \
  X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, NONE, \
    (int* least_priority, int* greatest_priority), \
    (least_priority, greatest_priority)) \
  X(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, 11000, NONE, (), ()) \
  X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, NONE, \
    (CUcontext peer_context, unsigned int flags), \
    (peer_context, flags)) \
  X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, NONE, (CUcontext peer_context), (peer_context))

// modules, libraries, functions
#define GPUMAN_CUDA_MODULE(X) \
  X(cuModuleLoad, cuModuleLoad, 2000, NONE, (CUmodule* module, const char* path), (module, path)) \
  X(cuModuleLoadData, cuModuleLoadData, 2000, NONE, (CUmodule* module, const void* image), (module, image)) \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, NONE, \
    (CUmodule* module, const void* image, unsigned int num_options, CUjit_option* options, \
     void** option_values), \
    (module, image, num_options, options, option_values)) \
  X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, 2000, NONE, \
    (CUmodule* module, const void* fat_cubin), \
    (module, fat_cubin)) \
  X(cuModuleUnload, cuModuleUnload, 2000, NONE, (CUmodule module), (module)) \
  X(cuModuleGetFunction, cuModuleGetFunction, 2000, NONE, \
    (CUfunction* function, CUmodule module, const char* name), \
    (function, module, name)) \
  X(cuModuleGetGlobal, cuModuleGetGlobal_v2, 3020, NONE, \
    (CUdeviceptr* pointer, size_t* bytes, CUmodule module, const char* name), \
    (pointer, bytes, module, name)) \
  X(cuModuleGetLoadingMode, cuModuleGetLoadingMode, 11070, NONE, (CUmoduleLoadingMode* mode), (mode)) \
  X(cuModuleGetFunctionCount, cuModuleGetFunctionCount, 12040, NONE, \
    (unsigned int* count, CUmodule module), \
    (count, module)) \
  X(cuModuleEnumerateFunctions, cuModuleEnumerateFunctions, 12040, NONE, \
    (CUfunction* functions, unsigned int num_functions, CUmodule module), \
    (functions, num_functions, module)) \
  X(cuLibraryLoadData, cuLibraryLoadData, 12000, NONE, \
    (CUlibrary* library, const void* code, CUjit_option* jit_options, void** jit_options_values, \
     unsigned int num_jit_options, CUlibraryOption* library_options, void** library_option_values, \
     unsigned int num_library_options), \
    (library, code, jit_options, jit_options_values, num_jit_options, library_options, \
     library_option_values, num_library_options)) \
  X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000, NONE, \
    (CUlibrary* library, const char* file_name, CUjit_option* jit_options, void** jit_options_values, \
     unsigned int num_jit_options, CUlibraryOption* library_options, void** library_option_values, \
     unsigned int num_library_options), \
    (library, file_name, jit_options, jit_options_values, num_jit_options, library_options, \
     library_option_values, num_library_options)) \
  X(cuLibraryUnload, cuLibraryUnload, 12000, NONE, (CUlibrary library), (library)) \
  X(cuLibraryGetKernel, cuLibraryGetKernel, 12000, NONE, \
    (CUkernel* kernel, CUlibrary library, const char* name), \
    (kernel, library, name)) \
  X(cuLibraryGetModule, cuLibraryGetModule, 12000, NONE, \
    (CUmodule* module, CUlibrary library), \
    (module, library)) \
  X(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000, NONE, \
    (CUdeviceptr* pointer, size_t* bytes, CUlibrary library, const char* name), \
    (pointer, bytes, library, name)) \
  X(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040, NONE, \
    (unsigned int* count, CUlibrary library), \
    (count, library)) \
  X(cuLibraryEnumerateKernels, cuLibraryEnumerateKernels, 12040, NONE, \
    (CUkernel* kernels, unsigned int num_kernels, CUlibrary library), \
    (kernels, num_kernels, library)) \
  X(cuKernelGetFunction, cuKernelGetFunction, 12000, NONE, \
    (CUfunction* function, CUkernel kernel), \
    (function, kernel)) \
  X(cuKernelGetLibrary, cuKernelGetLibrary, 12050, NONE, \
    (CUlibrary* library, CUkernel kernel), \
    (library, kernel)) \
  X(cuKernelGetName, cuKernelGetName, 12030, NONE, (const char** name, CUkernel function), (name, function)) \
  X(cuKernelGetAttribute, cuKernelGetAttribute, 12000, NONE, \
    (int* value, CUfunction_attribute attrib, CUkernel kernel, CUdevice device), \
    (value, attrib, kernel, device)) \
  X(cuKernelSetAttribute, cuKernelSetAttribute, 12000, NONE, \
    (CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice device), \
    (attrib, val, kernel, device)) \
  X(cuKernelSetCacheConfig, cuKernelSetCacheConfig, 12000, NONE, \
    (CUkernel kernel, CUfunc_cache config, CUdevice device), \
    (kernel, config, device)) \
  X(cuKernelGetParamInfo, cuKernelGetParamInfo, 12040, NONE, \
    (CUkernel kernel, size_t param_index, size_t* param_offset, size_t* param_size), \
    (kernel, param_index, param_offset, param_size)) \
  X(cuFuncGetAttribute, cuFuncGetAttribute, 2020, NONE, \
    (int* value, CUfunction_attribute attrib, CUfunction function), \
    (value, attrib, function)) \
  X(cuFuncSetAttribute, cuFuncSetAttribute, 9000, NONE, \
    (CUfunction function, CUfunction_attribute attrib, int value), \
    (function, attrib, value)) \
  X(cuFuncSetCacheConfig, cuFuncSetCacheConfig, 3000, NONE, \
    (CUfunction function, CUfunc_cache config), \
    (function, config)) \
  X(cuFuncSetSharedMemConfig, cuFuncSetSharedMemConfig, 4020, NONE, \
    (CUfunction function, CUsharedconfig config), \
    (function, config)) \
  X(cuFuncGetModule, cuFuncGetModule, 11000, NONE, \
    (CUmodule* module, CUfunction function), \
    (module, function)) \
  X(cuFuncGetName, cuFuncGetName, 12030, NONE, (const char** name, CUfunction function), (name, function)) \
  X(cuFuncGetParamInfo, cuFuncGetParamInfo, 12040, NONE, \
    (CUfunction function, size_t param_index, size_t* param_offset, size_t* param_size), \
    (function, param_index, param_offset, param_size)) \
  X(cuFuncIsLoaded, cuFuncIsLoaded, 12040, NONE, \
    (CUfunctionLoadingState* state, CUfunction function), \
    (state, function)) \
  X(cuFuncLoad, cuFuncLoad, 12040, NONE, (CUfunction function), (function)) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, NONE, \
    (int* num_blocks, CUfunction function, int block_size, size_t dynamic_s_mem_size), \
    (num_blocks, function, block_size, dynamic_s_mem_size)) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, \
     cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, NONE, \
    (int* num_blocks, CUfunction function, int block_size, size_t dynamic_s_mem_size, unsigned int flags), \
    (num_blocks, function, block_size, dynamic_s_mem_size, flags)) \
  X(cuOccupancyMaxPotentialBlockSize, cuOccupancyMaxPotentialBlockSize, 6050, NONE, \
    (int* min_grid_size, int* block_size, CUfunction function, \
     CUoccupancyB2DSize block_size_to_dynamic_s_mem_size, size_t dynamic_s_mem_size, \
     int block_size_limit), \
    (min_grid_size, block_size, function, block_size_to_dynamic_s_mem_size, dynamic_s_mem_size, \
     block_size_limit)) \
  X(cuOccupancyMaxPotentialBlockSizeWithFlags, cuOccupancyMaxPotentialBlockSizeWithFlags, 7000, NONE, \
    (int* min_grid_size, int* block_size, CUfunction function, \
     CUoccupancyB2DSize block_size_to_dynamic_s_mem_size, size_t dynamic_s_mem_size, \
     int block_size_limit, unsigned int flags), \
    (min_grid_size, block_size, function, block_size_to_dynamic_s_mem_size, dynamic_s_mem_size, \
     block_size_limit, flags)) \
  X(cuOccupancyAvailableDynamicSMemPerBlock, cuOccupancyAvailableDynamicSMemPerBlock, 10020, NONE, \
    (size_t* dynamic_smem_size, CUfunction function, int num_blocks, int block_size), \
    (dynamic_smem_size, function, num_blocks, block_size))

// launches
#define GPUMAN_CUDA_LAUNCH(X) \
  X(cuLaunchKernel, cuLaunchKernel, 4000, PTSZ, \
    (CUfunction function, unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z, \
     unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z, \
     unsigned int shared_mem_bytes, CUstream stream, void** kernel_params, void** extra), \
    (function, grid_dim_x, grid_dim_y, grid_dim_z, block_dim_x, block_dim_y, block_dim_z, \
     shared_mem_bytes, stream, kernel_params, extra)) \
  X(cuLaunchKernelEx, cuLaunchKernelEx, 11060, PTSZ, \
    (const CUlaunchConfig* config, CUfunction function, void** kernel_params, void** extra), \
    (config, function, kernel_params, extra)) \
  X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, PTSZ, \
    (CUfunction function, unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z, \
     unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z, \
     unsigned int shared_mem_bytes, CUstream stream, void** kernel_params), \
    (function, grid_dim_x, grid_dim_y, grid_dim_z, block_dim_x, block_dim_y, block_dim_z, \
     shared_mem_bytes, stream, kernel_params)) \
  X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, PTSZ, \
    (CUstream stream, CUhostFn callback, void* user_data), \
    (stream, callback, user_data)) \
  X(cuLaunchHostFunc, cuLaunchHostFunc_v2, 13010, PTSZ, \
    (CUstream stream, CUhostFn callback, void* user_data, unsigned int sync_mode), \
    (stream, callback, user_data, sync_mode))

// memory of a device and of the host
#define GPUMAN_CUDA_MEMORY(X) \
  X(cuMemGetInfo, cuMemGetInfo_v2, 3020, NONE, (size_t* free, size_t* total), (free, total)) \
  X(cuMemAlloc, cuMemAlloc_v2, 3020, NONE, (CUdeviceptr* pointer, size_t bytes), (pointer, bytes)) \
  X(cuMemAllocPitch, cuMemAllocPitch_v2, 3020, NONE, \
    (CUdeviceptr* pointer, size_t* pitch, size_t width_in_bytes, size_t height, \
     unsigned int element_size_bytes), \
    (pointer, pitch, width_in_bytes, height, element_size_bytes)) \
  X(cuMemFree, cuMemFree_v2, 3020, NONE, (CUdeviceptr pointer), (pointer)) \
  X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, NONE, \
    (CUdeviceptr* base, size_t* size, CUdeviceptr pointer), \
    (base, size, pointer)) \
  X(cuMemAllocManaged, cuMemAllocManaged, 6000, NONE, \
    (CUdeviceptr* pointer, size_t bytes, unsigned int flags), \
    (pointer, bytes, flags)) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync, 8000, PTSZ, \
    (CUdeviceptr dev_ptr, size_t count, CUdevice dst, CUstream stream), \
    (dev_ptr, count, dst, stream)) \
  X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020, PTSZ, \
    (CUdeviceptr dev_ptr, size_t count, CUmemLocation location, unsigned int flags, CUstream stream), \
    (dev_ptr, count, location, flags, stream)) \
  X(cuMemAdvise, cuMemAdvise, 8000, NONE, \
    (CUdeviceptr dev_ptr, size_t count, CUmem_advise advice, CUdevice device), \
    (dev_ptr, count, advice, device)) \
  X(cuMemAdvise, cuMemAdvise_v2, 12020, NONE, \
    (CUdeviceptr dev_ptr, size_t count, CUmem_advise advice, CUmemLocation location), \
    (dev_ptr, count, advice, location)) \
  X(cuMemRangeGetAttribute, cuMemRangeGetAttribute, 8000, NONE, \
    (void* data, size_t data_size, CUmem_range_attribute attribute, CUdeviceptr dev_ptr, size_t count), \
    (data, data_size, attribute, dev_ptr, count)) \
  X(cuMemRangeGetAttributes, cuMemRangeGetAttributes, 8000, NONE, \
    (void** data, size_t* data_sizes, CUmem_range_attribute* attributes, size_t num_attributes, \
     CUdeviceptr dev_ptr, size_t count), \
    (data, data_sizes, attributes, num_attributes, dev_ptr, count)) \
  X(cuMemAllocHost, cuMemAllocHost_v2, 3020, NONE, (void** out, size_t bytes), (out, bytes)) \
  X(cuMemFreeHost, cuMemFreeHost, 2000, NONE, (void* pointer), (pointer)) \
  X(cuMemHostAlloc, cuMemHostAlloc, 2020, NONE, \
    (void** out, size_t bytes, unsigned int flags), \
    (out, bytes, flags)) \
  X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, NONE, \
    (CUdeviceptr* out, void* pointer, unsigned int flags), \
    (out, pointer, flags)) \
  X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, NONE, \
    (unsigned int* flags, void* pointer), \
    (flags, pointer)) \
  X(cuMemHostRegister, cuMemHostRegister, 4000, NONE, \
    (void* pointer, size_t bytes, unsigned int flags), \
    (pointer, bytes, flags)) \
  X(cuMemHostRegister, cuMemHostRegister_v2, 6050, NONE, \
    (void* pointer, size_t bytes, unsigned int flags), \
    (pointer, bytes, flags)) \
  X(cuMemHostUnregister, cuMemHostUnregister, 4000, NONE, (void* pointer), (pointer)) \
  X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, NONE, \
    (void* data, CUpointer_attribute attribute, CUdeviceptr ptr), \
    (data, attribute, ptr)) \
  X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, NONE, \
    (unsigned int num_attributes, CUpointer_attribute* attributes, void** data, CUdeviceptr ptr), \
    (num_attributes, attributes, data, ptr)) \
  X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, NONE, \
    (const void* value, CUpointer_attribute attribute, CUdeviceptr ptr), \
    (value, attribute, ptr)) \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, NONE, \
    (CUipcMemHandle* handle, CUdeviceptr pointer), \
    (handle, pointer)) \
  X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, 4010, NONE, \
    (CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags), \
    (out, handle, flags)) \
  X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2, 11000, NONE, \
    (CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags), \
    (out, handle, flags)) \
  X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010, NONE, (CUdeviceptr pointer), (pointer))

// stream-ordered allocation
#define GPUMAN_CUDA_POOL(X) \
  X(cuMemAllocAsync, cuMemAllocAsync, 11020, PTSZ, \
    (CUdeviceptr* pointer, size_t bytes, CUstream stream), \
    (pointer, bytes, stream)) \
  X(cuMemFreeAsync, cuMemFreeAsync, 11020, PTSZ, (CUdeviceptr pointer, CUstream stream), (pointer, stream)) \
  X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, PTSZ, \
    (CUdeviceptr* pointer, size_t bytes, CUmemoryPool pool, CUstream stream), \
    (pointer, bytes, pool, stream)) \
  X(cuMemPoolCreate, cuMemPoolCreate, 11020, NONE, \
    (CUmemoryPool* pool, const CUmemPoolProps* pool_props), \
    (pool, pool_props)) \
  X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, NONE, (CUmemoryPool pool), (pool)) \
  X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, NONE, \
    (CUmemoryPool pool, size_t min_bytes_to_keep), \
    (pool, min_bytes_to_keep)) \
  X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, NONE, \
    (CUmemoryPool pool, CUmemPool_attribute attr, void* value), \
    (pool, attr, value)) \
  X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, NONE, \
    (CUmemoryPool pool, CUmemPool_attribute attr, void* value), \
    (pool, attr, value)) \
  X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, NONE, \
    (CUmemoryPool pool, const CUmemAccessDesc* map, size_t count), \
    (pool, map, count)) \
  X(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, NONE, \
    (CUmemAccess_flags* flags, CUmemoryPool mem_pool, CUmemLocation* location), \
    (flags, mem_pool, location))

// virtual memory
#define GPUMAN_CUDA_VMM(X) \
  X(cuMemAddressReserve, cuMemAddressReserve, 10020, NONE, \
    (CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags), \
    (ptr, size, alignment, addr, flags)) \
  X(cuMemAddressFree, cuMemAddressFree, 10020, NONE, (CUdeviceptr ptr, size_t size), (ptr, size)) \
  X(cuMemCreate, cuMemCreate, 10020, NONE, \
    (CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop, \
     unsigned long long flags), \
    (handle, size, prop, flags)) \
  X(cuMemRelease, cuMemRelease, 10020, NONE, (CUmemGenericAllocationHandle handle), (handle)) \
  X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, 11000, NONE, \
    (CUmemGenericAllocationHandle* handle, void* addr), \
    (handle, addr)) \
  X(cuMemMap, cuMemMap, 10020, NONE, \
    (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, \
     unsigned long long flags), \
    (ptr, size, offset, handle, flags)) \
  X(cuMemUnmap, cuMemUnmap, 10020, NONE, (CUdeviceptr ptr, size_t size), (ptr, size)) \
  X(cuMemSetAccess, cuMemSetAccess, 10020, NONE, \
    (CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count), \
    (ptr, size, desc, count)) \
  X(cuMemGetAccess, cuMemGetAccess, 10020, NONE, \
    (unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr), \
    (flags, location, ptr)) \
  X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity, 10020, NONE, \
    (size_t* granularity, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags option), \
    (granularity, prop, option)) \
  X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, 10020, NONE, \
    (CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle), \
    (prop, handle)) \
  X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, 10020, NONE, \
    (void* shareable_handle, CUmemGenericAllocationHandle handle, \
     CUmemAllocationHandleType handle_type, unsigned long long flags), \
    (shareable_handle, handle, handle_type, flags)) \
  X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, 10020, NONE, \
    (CUmemGenericAllocationHandle* handle, void* os_handle, CUmemAllocationHandleType sh_handle_type), \
    (handle, os_handle, sh_handle_type)) \
  X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, 11070, NONE, \
    (void* handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handle_type, unsigned long long flags), \
    (handle, dptr, size, handle_type, flags)) \
  X(cuMulticastBindMem, cuMulticastBindMem, 12010, NONE, \
    (CUmemGenericAllocationHandle mc_handle, size_t mc_offset, CUmemGenericAllocationHandle mem_handle, \
     size_t mem_offset, size_t size, unsigned long long flags), \
    (mc_handle, mc_offset, mem_handle, mem_offset, size, flags)) \
  X(cuMulticastBindMem, cuMulticastBindMem_v2, 13010, NONE, \
    (CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset, \
     CUmemGenericAllocationHandle mem_handle, size_t mem_offset, size_t size, unsigned long long flags), \
    (mc_handle, device, mc_offset, mem_handle, mem_offset, size, flags)) \
  X(cuMulticastBindAddr, cuMulticastBindAddr, 12010, NONE, \
    (CUmemGenericAllocationHandle mc_handle, size_t mc_offset, CUdeviceptr memptr, size_t size, \
     unsigned long long flags), \
    (mc_handle, mc_offset, memptr, size, flags)) \
  X(cuMulticastBindAddr, cuMulticastBindAddr_v2, 13010, NONE, \
    (CUmemGenericAllocationHandle mc_handle, CUdevice device, size_t mc_offset, CUdeviceptr memptr, \
     size_t size, unsigned long long flags), \
    (mc_handle, device, mc_offset, memptr, size, flags))

// arrays
#define GPUMAN_CUDA_ARRAY(X) \
  X(cuArrayCreate, cuArrayCreate_v2, 3020, NONE, \
    (CUarray* handle, const CUDA_ARRAY_DESCRIPTOR* allocate_array), \
    (handle, allocate_array)) \
  X(cuArray3DCreate, cuArray3DCreate_v2, 3020, NONE, \
    (CUarray* handle, const CUDA_ARRAY3D_DESCRIPTOR* allocate_array), \
    (handle, allocate_array)) \
  X(cuArrayGetDescriptor, cuArrayGetDescriptor_v2, 3020, NONE, \
    (CUDA_ARRAY_DESCRIPTOR* array_descriptor, CUarray array), \
    (array_descriptor, array)) \
  X(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, 3020, NONE, \
    (CUDA_ARRAY3D_DESCRIPTOR* array_descriptor, CUarray array), \
    (array_descriptor, array)) \
  X(cuArrayDestroy, cuArrayDestroy, 2000, NONE, (CUarray array), (array)) \
  X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, 5000, NONE, \
    (CUmipmappedArray* handle, const CUDA_ARRAY3D_DESCRIPTOR* mipmapped_array_desc, \
     unsigned int num_mipmap_levels), \
    (handle, mipmapped_array_desc, num_mipmap_levels)) \
  X(cuMipmappedArrayGetLevel, cuMipmappedArrayGetLevel, 5000, NONE, \
    (CUarray* level_array, CUmipmappedArray mipmapped_array, unsigned int level), \
    (level_array, mipmapped_array, level)) \
  X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, 5000, NONE, \
    (CUmipmappedArray mipmapped_array), \
    (mipmapped_array)) \
  X(cuArrayGetMemoryRequirements, cuArrayGetMemoryRequirements, 11060, NONE, \
    (CUDA_ARRAY_MEMORY_REQUIREMENTS* memory_requirements, CUarray array, CUdevice device), \
    (memory_requirements, array, device)) \
  X(cuMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements, 11060, NONE, \
    (CUDA_ARRAY_MEMORY_REQUIREMENTS* memory_requirements, CUmipmappedArray mipmap, CUdevice device), \
    (memory_requirements, mipmap, device))

// copies
#define GPUMAN_CUDA_COPY(X) \
  X(cuMemcpy, cuMemcpy, 4000, PTDS, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes)) \
  X(cuMemcpyAsync, cuMemcpyAsync, 4000, PTSZ, \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), \
    (dst, src, bytes, stream)) \
  X(cuMemcpyPeer, cuMemcpyPeer, 4000, PTDS, \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes), \
    (dst, dst_context, src, src_context, bytes)) \
  X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, PTSZ, \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes, \
     CUstream stream), \
    (dst, dst_context, src, src_context, bytes, stream)) \
  X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, PTDS, \
    (CUdeviceptr dst, const void* src_host, size_t bytes), \
    (dst, src_host, bytes)) \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, PTSZ, \
    (CUdeviceptr dst, const void* src_host, size_t bytes, CUstream stream), \
    (dst, src_host, bytes, stream)) \
  X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, PTDS, \
    (void* dst_host, CUdeviceptr src, size_t bytes), \
    (dst_host, src, bytes)) \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, PTSZ, \
    (void* dst_host, CUdeviceptr src, size_t bytes, CUstream stream), \
    (dst_host, src, bytes, stream)) \
  X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, PTDS, \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes), \
    (dst, src, bytes)) \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, PTSZ, \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream), \
    (dst, src, bytes, stream)) \
  X(cuMemcpyDtoA, cuMemcpyDtoA_v2, 3020, PTDS, \
    (CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t bytes), \
    (dst_array, dst_offset, src, bytes)) \
  X(cuMemcpyAtoD, cuMemcpyAtoD_v2, 3020, PTDS, \
    (CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t bytes), \
    (dst, src_array, src_offset, bytes)) \
  X(cuMemcpyHtoA, cuMemcpyHtoA_v2, 3020, PTDS, \
    (CUarray dst_array, size_t dst_offset, const void* src_host, size_t bytes), \
    (dst_array, dst_offset, src_host, bytes)) \
  X(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, 3020, PTSZ, \
    (CUarray dst_array, size_t dst_offset, const void* src_host, size_t bytes, CUstream stream), \
    (dst_array, dst_offset, src_host, bytes, stream)) \
  X(cuMemcpyAtoH, cuMemcpyAtoH_v2, 3020, PTDS, \
    (void* dst_host, CUarray src_array, size_t src_offset, size_t bytes), \
    (dst_host, src_array, src_offset, bytes)) \
  X(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, 3020, PTSZ, \
    (void* dst_host, CUarray src_array, size_t src_offset, size_t bytes, CUstream stream), \
    (dst_host, src_array, src_offset, bytes, stream)) \
  X(cuMemcpyAtoA, cuMemcpyAtoA_v2, 3020, PTDS, \
    (CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset, size_t bytes), \
    (dst_array, dst_offset, src_array, src_offset, bytes)) \
  X(cuMemcpy2D, cuMemcpy2D_v2, 3020, PTDS, (const CUDA_MEMCPY2D* copy), (copy)) \
  X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, 3020, PTDS, (const CUDA_MEMCPY2D* copy), (copy)) \
  X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, 3020, PTSZ, \
    (const CUDA_MEMCPY2D* copy, CUstream stream), \
    (copy, stream)) \
  X(cuMemcpy3D, cuMemcpy3D_v2, 3020, PTDS, (const CUDA_MEMCPY3D* copy), (copy)) \
  X(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, 3020, PTSZ, \
    (const CUDA_MEMCPY3D* copy, CUstream stream), \
    (copy, stream)) \
  X(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, PTDS, (const CUDA_MEMCPY3D_PEER* copy), (copy)) \
  X(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, PTSZ, \
    (const CUDA_MEMCPY3D_PEER* copy, CUstream stream), \
    (copy, stream)) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, PTSZ, \
    (CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs, \
     size_t* attrs_idxs, size_t num_attrs, size_t* fail_idx, CUstream stream), \
    (dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs, fail_idx, stream)) \
  X(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2, 13000, PTSZ, \
    (CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, CUmemcpyAttributes* attrs, \
     size_t* attrs_idxs, size_t num_attrs, CUstream stream), \
    (dsts, srcs, sizes, count, attrs, attrs_idxs, num_attrs, stream))

// sets
#define GPUMAN_CUDA_SET(X) \
  X(cuMemsetD8, cuMemsetD8_v2, 3020, PTDS, \
    (CUdeviceptr dst, unsigned char value, size_t count), \
    (dst, value, count)) \
  X(cuMemsetD16, cuMemsetD16_v2, 3020, PTDS, \
    (CUdeviceptr dst, unsigned short value, size_t count), \
    (dst, value, count)) \
  X(cuMemsetD32, cuMemsetD32_v2, 3020, PTDS, \
    (CUdeviceptr dst, unsigned int value, size_t count), \
    (dst, value, count)) \
  X(cuMemsetD2D8, cuMemsetD2D8_v2, 3020, PTDS, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width, size_t height), \
    (dst, dst_pitch, value, width, height)) \
  X(cuMemsetD2D16, cuMemsetD2D16_v2, 3020, PTDS, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width, size_t height), \
    (dst, dst_pitch, value, width, height)) \
  X(cuMemsetD2D32, cuMemsetD2D32_v2, 3020, PTDS, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width, size_t height), \
    (dst, dst_pitch, value, width, height)) \
  X(cuMemsetD8Async, cuMemsetD8Async, 3020, PTSZ, \
    (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream), \
    (dst, value, count, stream)) \
  X(cuMemsetD16Async, cuMemsetD16Async, 3020, PTSZ, \
    (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream), \
    (dst, value, count, stream)) \
  X(cuMemsetD32Async, cuMemsetD32Async, 3020, PTSZ, \
    (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream), \
    (dst, value, count, stream)) \
  X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, PTSZ, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width, size_t height, \
     CUstream stream), \
    (dst, dst_pitch, value, width, height, stream)) \
  X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, PTSZ, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width, size_t height, \
     CUstream stream), \
    (dst, dst_pitch, value, width, height, stream)) \
  X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, PTSZ, \
    (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width, size_t height, CUstream stream), \
    (dst, dst_pitch, value, width, height, stream))

// streams
#define GPUMAN_CUDA_STREAM(X) \
  X(cuStreamCreate, cuStreamCreate, 2000, NONE, (CUstream* stream, unsigned int flags), (stream, flags)) \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, NONE, \
    (CUstream* stream, unsigned int flags, int priority), \
    (stream, flags, priority)) \
  X(cuStreamDestroy, cuStreamDestroy_v2, 4000, NONE, (CUstream stream), (stream)) \
  X(cuStreamGetPriority, cuStreamGetPriority, 5050, PTSZ, \
    (CUstream stream, int* priority), \
    (stream, priority)) \
  X(cuStreamGetFlags, cuStreamGetFlags, 5050, PTSZ, (CUstream stream, unsigned int* flags), (stream, flags)) \
  X(cuStreamGetId, cuStreamGetId, 12000, PTSZ, \
    (CUstream stream, unsigned long long* stream_id), \
    (stream, stream_id)) \
  X(cuStreamGetCtx, cuStreamGetCtx, 9020, PTSZ, (CUstream stream, CUcontext* out), (stream, out)) \
  X(cuStreamGetCtx, cuStreamGetCtx_v2, 12050, PTSZ, \
    (CUstream stream, CUcontext* context, CUgreenCtx* green_ctx), \
    (stream, context, green_ctx)) \
  X(cuStreamGetDevice, cuStreamGetDevice, 12080, PTSZ, \
    (CUstream stream, CUdevice* device), \
    (stream, device)) \
  X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, PTSZ, \
    (CUstream stream, CUevent event, unsigned int flags), \
    (stream, event, flags)) \
  X(cuStreamAddCallback, cuStreamAddCallback, 5000, PTSZ, \
    (CUstream stream, CUstreamCallback callback, void* user_data, unsigned int flags), \
    (stream, callback, user_data, flags)) \
  X(cuStreamQuery, cuStreamQuery, 2000, PTSZ, (CUstream stream), (stream)) \
  X(cuStreamSynchronize, cuStreamSynchronize, 2000, PTSZ, (CUstream stream), (stream)) \
  X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000, PTSZ, \
    (CUstream stream, CUdeviceptr pointer, size_t length, unsigned int flags), \
    (stream, pointer, length, flags)) \
  X(cuStreamCopyAttributes, cuStreamCopyAttributes, 11000, PTSZ, \
    (CUstream dst_stream, CUstream src_stream), \
    (dst_stream, src_stream)) \
  X(cuStreamGetAttribute, cuStreamGetAttribute, 11000, PTSZ, \
    (CUstream stream, CUstreamAttrID attr, CUstreamAttrValue* value), \
    (stream, attr, value)) \
  X(cuStreamSetAttribute, cuStreamSetAttribute, 11000, PTSZ, \
    (CUstream stream, CUstreamAttrID attr, const CUstreamAttrValue* param), \
    (stream, attr, param)) \
  X(cuStreamWriteValue32, cuStreamWriteValue32, 8000, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWriteValue32, cuStreamWriteValue32_v2, 11070, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWriteValue64, cuStreamWriteValue64, 9000, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWriteValue64, cuStreamWriteValue64_v2, 11070, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWaitValue32, cuStreamWaitValue32, 8000, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWaitValue32, cuStreamWaitValue32_v2, 11070, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWaitValue64, cuStreamWaitValue64, 9000, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamWaitValue64, cuStreamWaitValue64_v2, 11070, PTSZ, \
    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags), \
    (stream, addr, value, flags)) \
  X(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, PTSZ, \
    (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* param_array, unsigned int flags), \
    (stream, count, param_array, flags)) \
  X(cuStreamBatchMemOp, cuStreamBatchMemOp_v2, 11070, PTSZ, \
    (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* param_array, unsigned int flags), \
    (stream, count, param_array, flags))

// events
#define GPUMAN_CUDA_EVENT(X) \
  X(cuEventCreate, cuEventCreate, 2000, NONE, (CUevent* event, unsigned int flags), (event, flags)) \
  X(cuEventRecord, cuEventRecord, 2000, PTSZ, (CUevent event, CUstream stream), (event, stream)) \
  X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, PTSZ, \
    (CUevent event, CUstream stream, unsigned int flags), \
    (event, stream, flags)) \
  X(cuEventQuery, cuEventQuery, 2000, NONE, (CUevent event), (event)) \
  X(cuEventSynchronize, cuEventSynchronize, 2000, NONE, (CUevent event), (event)) \
  X(cuEventDestroy, cuEventDestroy_v2, 4000, NONE, (CUevent event), (event)) \
  X(cuEventElapsedTime, cuEventElapsedTime, 2000, NONE, \
    (float* milliseconds, CUevent start, CUevent end), \
    (milliseconds, start, end)) \
  X(cuEventElapsedTime, cuEventElapsedTime_v2, 12080, NONE, \
    (float* milliseconds, CUevent start, CUevent end), \
    (milliseconds, start, end))

// capture and graphs
#define GPUMAN_CUDA_GRAPH(X) \
  X(cuStreamBeginCapture, cuStreamBeginCapture, 10000, PTSZ, (CUstream stream), (stream)) \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, PTSZ, \
    (CUstream stream, CUstreamCaptureMode mode), \
    (stream, mode)) \
  X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030, PTSZ, \
    (CUstream stream, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* dependency_data, \
     size_t num_dependencies, CUstreamCaptureMode mode), \
    (stream, graph, dependencies, dependency_data, num_dependencies, mode)) \
  X(cuStreamEndCapture, cuStreamEndCapture, 10000, PTSZ, (CUstream stream, CUgraph* graph), (stream, graph)) \
  X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, PTSZ, \
    (CUstream stream, CUstreamCaptureStatus* capture_status), \
    (stream, capture_status)) \
  X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo, 10010, PTSZ, \
    (CUstream stream, CUstreamCaptureStatus* capture_status_out, cuuint64_t* id_out), \
    (stream, capture_status_out, id_out)) \
  X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, PTSZ, \
    (CUstream stream, CUstreamCaptureStatus* capture_status_out, cuuint64_t* id_out, \
     CUgraph* graph_out, const CUgraphNode** dependencies_out, size_t* num_dependencies_out), \
    (stream, capture_status_out, id_out, graph_out, dependencies_out, num_dependencies_out)) \
  X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v3, 12030, PTSZ, \
    (CUstream stream, CUstreamCaptureStatus* capture_status_out, cuuint64_t* id_out, \
     CUgraph* graph_out, const CUgraphNode** dependencies_out, const CUgraphEdgeData** edge_data_out, \
     size_t* num_dependencies_out), \
    (stream, capture_status_out, id_out, graph_out, dependencies_out, edge_data_out, num_dependencies_out)) \
  X(cuGraphCreate, cuGraphCreate, 10000, NONE, (CUgraph* graph, unsigned int flags), (graph, flags)) \
  X(cuGraphDestroy, cuGraphDestroy, 10000, NONE, (CUgraph graph), (graph)) \
  X(cuGraphGetNodes, cuGraphGetNodes, 10000, NONE, \
    (CUgraph graph, CUgraphNode* nodes, size_t* num_nodes), \
    (graph, nodes, num_nodes)) \
  X(cuGraphNodeGetType, cuGraphNodeGetType, 10000, NONE, \
    (CUgraphNode node, CUgraphNodeType* type), \
    (node, type)) \
  X(cuGraphInstantiate, cuGraphInstantiate, 10000, NONE, \
    (CUgraphExec* graph_exec, CUgraph graph, CUgraphNode* error_node, char* log_buffer, \
     size_t buffer_size), \
    (graph_exec, graph, error_node, log_buffer, buffer_size)) \
  X(cuGraphInstantiate, cuGraphInstantiate_v2, 11000, NONE, \
    (CUgraphExec* graph_exec, CUgraph graph, CUgraphNode* error_node, char* log_buffer, \
     size_t buffer_size), \
    (graph_exec, graph, error_node, log_buffer, buffer_size)) \
  X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, NONE, \
    (CUgraphExec* graph_exec, CUgraph graph, unsigned long long flags), \
    (graph_exec, graph, flags)) \
  X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, 12000, PTSZ, \
    (CUgraphExec* graph_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* instantiate_params), \
    (graph_exec, graph, instantiate_params)) \
  X(cuGraphUpload, cuGraphUpload, 11010, PTSZ, (CUgraphExec graph, CUstream stream), (graph, stream)) \
  X(cuGraphLaunch, cuGraphLaunch, 10000, PTSZ, (CUgraphExec graph, CUstream stream), (graph, stream)) \
  X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, NONE, (CUgraphExec graph_exec), (graph_exec))

// checkpoint of a process
#define GPUMAN_CUDA_CHECKPOINT(X) \
  X(cuCheckpointProcessLock, cuCheckpointProcessLock, 12080, NONE, \
    (int pid, CUcheckpointLockArgs* args), \
    (pid, args)) \
  X(cuCheckpointProcessCheckpoint, cuCheckpointProcessCheckpoint, 12080, NONE, \
    (int pid, CUcheckpointCheckpointArgs* args), \
    (pid, args)) \
  X(cuCheckpointProcessRestore, cuCheckpointProcessRestore, 12080, NONE, \
    (int pid, CUcheckpointRestoreArgs* args), \
    (pid, args)) \
  X(cuCheckpointProcessUnlock, cuCheckpointProcessUnlock, 12080, NONE, \
    (int pid, CUcheckpointUnlockArgs* args), \
    (pid, args)) \
  X(cuCheckpointProcessGetState, cuCheckpointProcessGetState, 12080, NONE, \
    (int pid, CUprocessState* state), \
    (pid, state)) \
  X(cuCheckpointProcessGetRestoreThreadId, cuCheckpointProcessGetRestoreThreadId, 12080, NONE, \
    (int pid, int* tid), \
    (pid, tid))

#define GPUMAN_CUDA_FUNCTIONS(X) \
  GPUMAN_CUDA_GENERAL(X) \
  GPUMAN_CUDA_DEVICE(X) \
  GPUMAN_CUDA_CONTEXT(X) \
  GPUMAN_CUDA_MODULE(X) \
  GPUMAN_CUDA_LAUNCH(X) \
  GPUMAN_CUDA_MEMORY(X) \
  GPUMAN_CUDA_POOL(X) \
  GPUMAN_CUDA_VMM(X) \
  GPUMAN_CUDA_ARRAY(X) \
  GPUMAN_CUDA_COPY(X) \
  GPUMAN_CUDA_SET(X) \
  GPUMAN_CUDA_STREAM(X) \
  GPUMAN_CUDA_EVENT(X) \
  GPUMAN_CUDA_GRAPH(X) \
  GPUMAN_CUDA_CHECKPOINT(X)

// clang-format on
