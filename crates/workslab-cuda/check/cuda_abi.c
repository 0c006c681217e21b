/* What workslab-cuda relies on, checked against a CUDA toolkit's own header.

   Compiled, not run: every line is a static assertion, or an assignment that a warning would refuse.
   `cargo xtask cuda-headers DIR` does it; DIR holds cuda.h. The header renames functions to their newest
   versions (cuMemAlloc to cuMemAlloc_v2); the backend looks those very names up. */
#include <stddef.h>
#include <cuda.h>

#define SAME(what, value) _Static_assert((what) == (value), #what " is not " #value)

/* Codes and flags that the backend knows by their number. */
SAME(CUDA_SUCCESS, 0);
SAME(CUDA_ERROR_DEINITIALIZED, 4);
SAME(CU_STREAM_NON_BLOCKING, 1);
SAME(CU_EVENT_DISABLE_TIMING, 2);
SAME(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18);
SAME(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1);
SAME(CU_STREAM_CAPTURE_STATUS_NONE, 0);
SAME(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1);
SAME(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1);
SAME(CU_GRAPH_USER_OBJECT_MOVE, 1);

/* Enums are passed as unsigned int, handles as pointers, addresses as 64 bits. */
SAME(sizeof(CUresult), sizeof(unsigned int));
SAME(sizeof(CUdevice_attribute), sizeof(unsigned int));
SAME(sizeof(CUdevice), sizeof(int));
SAME(sizeof(CUdeviceptr), 8);
SAME(sizeof(CUcontext), sizeof(void *));
SAME(sizeof(CUstreamCaptureMode), sizeof(unsigned int));
SAME(sizeof(CUstreamCaptureStatus), sizeof(unsigned int));
SAME(sizeof(cuuint64_t), 8);
SAME(sizeof(CUgraph), sizeof(void *));
SAME(sizeof(CUgraphExec), sizeof(void *));
SAME(sizeof(CUuserObject), sizeof(void *));
SAME(sizeof(CUstream), sizeof(void *));
SAME(sizeof(CUevent), sizeof(void *));

/* Prototypes, argument by argument, under the names that are looked up. */
CUresult (*const init)(unsigned int) = cuInit;
CUresult (*const version)(int *) = cuDriverGetVersion;
CUresult (*const name)(CUresult, const char **) = cuGetErrorName;
CUresult (*const count)(int *) = cuDeviceGetCount;
CUresult (*const get)(CUdevice *, int) = cuDeviceGet;
CUresult (*const device_name)(char *, int, CUdevice) = cuDeviceGetName;
CUresult (*const pci)(char *, int, CUdevice) = cuDeviceGetPCIBusId;
CUresult (*const attribute)(int *, CUdevice_attribute, CUdevice) = cuDeviceGetAttribute;
CUresult (*const retain)(CUcontext *, CUdevice) = cuDevicePrimaryCtxRetain;
CUresult (*const current)(CUcontext *) = cuCtxGetCurrent;
CUresult (*const set)(CUcontext) = cuCtxSetCurrent;
CUresult (*const info)(size_t *, size_t *) = cuMemGetInfo_v2;
CUresult (*const allocate)(CUdeviceptr *, size_t) = cuMemAlloc_v2;
CUresult (*const release)(CUdeviceptr) = cuMemFree_v2;
CUresult (*const create)(CUstream *, unsigned int) = cuStreamCreate;
CUresult (*const destroy)(CUstream) = cuStreamDestroy_v2;
CUresult (*const synchronize)(CUstream) = cuStreamSynchronize;
CUresult (*const wait)(CUstream, CUevent, unsigned int) = cuStreamWaitEvent;
CUresult (*const event)(CUevent *, unsigned int) = cuEventCreate;
CUresult (*const no_event)(CUevent) = cuEventDestroy_v2;
CUresult (*const record)(CUevent, CUstream) = cuEventRecord;
CUresult (*const write)(CUdeviceptr, const void *, size_t, CUstream) = cuMemcpyHtoDAsync_v2;
CUresult (*const read)(void *, CUdeviceptr, size_t, CUstream) = cuMemcpyDtoHAsync_v2;
CUresult (*const copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream) = cuMemcpyDtoDAsync_v2;
CUresult (*const fill8)(CUdeviceptr, unsigned char, size_t, CUstream) = cuMemsetD8Async;
CUresult (*const fill16)(CUdeviceptr, unsigned short, size_t, CUstream) = cuMemsetD16Async;
CUresult (*const fill32)(CUdeviceptr, unsigned int, size_t, CUstream) = cuMemsetD32Async;

/* Captures and graphs; a driver may lack them. cuStreamGetCaptureInfo_v2 is in every driver since CUDA
   11.3, but newer headers name only its successor, so its prototype (that of CUDA 11.3's header) is
   written down here; where the header has one too, the compiler compares the two. */
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *);
CUresult (*const capture)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *) = cuStreamGetCaptureInfo_v2;
CUresult (*const begin_capture)(CUstream, CUstreamCaptureMode) = cuStreamBeginCapture_v2;
CUresult (*const end_capture)(CUstream, CUgraph *) = cuStreamEndCapture;
CUresult (*const instantiate)(CUgraphExec *, CUgraph, unsigned long long) = cuGraphInstantiateWithFlags;
CUresult (*const launch)(CUgraphExec, CUstream) = cuGraphLaunch;
CUresult (*const no_executable)(CUgraphExec) = cuGraphExecDestroy;
CUresult (*const no_graph)(CUgraph) = cuGraphDestroy;
CUresult (*const object)(CUuserObject *, void *, CUhostFn, unsigned int, unsigned int) = cuUserObjectCreate;
CUresult (*const no_object)(CUuserObject, unsigned int) = cuUserObjectRelease;
CUresult (*const keep)(CUgraph, CUuserObject, unsigned int, unsigned int) = cuGraphRetainUserObject;

/* Virtual memory; a driver may lack it. */
SAME(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102);
SAME(sizeof(CUmemGenericAllocationHandle), 8);
SAME(sizeof(CUmemAllocationGranularity_flags), sizeof(unsigned int));
SAME(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, 1);
SAME(CU_MEM_ALLOCATION_TYPE_PINNED, 1);
SAME(CU_MEM_HANDLE_TYPE_NONE, 0);
SAME(CU_MEM_LOCATION_TYPE_DEVICE, 1);
SAME(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3);
SAME(sizeof(CUmemLocation), 8);
SAME(offsetof(CUmemLocation, id), 4);
SAME(sizeof(CUmemAccessDesc), 12);
SAME(offsetof(CUmemAccessDesc, flags), 8);
SAME(sizeof(CUmemAllocationProp), 32);
SAME(offsetof(CUmemAllocationProp, type), 0);
SAME(offsetof(CUmemAllocationProp, requestedHandleTypes), 4);
SAME(offsetof(CUmemAllocationProp, location), 8);
SAME(offsetof(CUmemAllocationProp, win32HandleMetaData), 16);
SAME(offsetof(CUmemAllocationProp, allocFlags), 24);
CUresult (*const granularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) = cuMemGetAllocationGranularity;
CUresult (*const reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long) = cuMemAddressReserve;
CUresult (*const no_reserve)(CUdeviceptr, size_t) = cuMemAddressFree;
CUresult (*const piece)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long) = cuMemCreate;
CUresult (*const no_piece)(CUmemGenericAllocationHandle) = cuMemRelease;
CUresult (*const map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long) = cuMemMap;
CUresult (*const unmap)(CUdeviceptr, size_t) = cuMemUnmap;
CUresult (*const allow)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t) = cuMemSetAccess;
