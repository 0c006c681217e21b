/* What workslab-rocm relies on, checked against a HIP toolkit's own headers.

   Compiled, not run: every line is a static assertion, or an assignment that a warning would refuse.
   `cargo xtask hip-headers DIR` does it; DIR holds hip/hip_runtime_api.h. */
#include <stddef.h>
#include <hip/hip_runtime_api.h>

#define SAME(what, value) _Static_assert((what) == (value), #what " is not " #value)

/* Codes and flags that the backend knows by their number. */
SAME(hipSuccess, 0);
SAME(hipErrorDeinitialized, 4);
SAME(hipErrorNoDevice, 100);
SAME(hipErrorInvalidDevice, 101);
SAME(hipStreamNonBlocking, 1);
SAME(hipEventDisableTiming, 2);
SAME(hipDeviceAttributeIntegrated, 16);
SAME(hipMemcpyHostToDevice, 1);
SAME(hipMemcpyDeviceToHost, 2);
SAME(hipMemcpyDeviceToDevice, 3);
SAME(hipStreamCaptureModeThreadLocal, 1);
SAME(hipStreamCaptureStatusNone, 0);
SAME(hipStreamCaptureStatusActive, 1);

/* Enums are passed as unsigned int, handles as pointers. */
SAME(sizeof(hipError_t), sizeof(unsigned int));
SAME(sizeof(hipMemcpyKind), sizeof(unsigned int));
SAME(sizeof(hipDeviceAttribute_t), sizeof(unsigned int));
SAME(sizeof(hipStreamCaptureMode), sizeof(unsigned int));
SAME(sizeof(hipStreamCaptureStatus), sizeof(unsigned int));
SAME(sizeof(unsigned long long), 8);
SAME(sizeof(hipGraph_t), sizeof(void *));
SAME(sizeof(hipGraphExec_t), sizeof(void *));
SAME(sizeof(hipStream_t), sizeof(void *));
SAME(sizeof(hipEvent_t), sizeof(void *));
SAME(sizeof(hipDeviceptr_t), sizeof(void *));
SAME(sizeof(hipDevice_t), sizeof(int));

/* Prototypes, argument by argument. */
hipError_t (*const version)(int *) = hipRuntimeGetVersion;
const char *(*const name)(hipError_t) = hipGetErrorName;
hipError_t (*const count)(int *) = hipGetDeviceCount;
hipError_t (*const get)(int *) = hipGetDevice;
hipError_t (*const set)(int) = hipSetDevice;
hipError_t (*const device_name)(char *, int, hipDevice_t) = hipDeviceGetName;
hipError_t (*const pci)(char *, int, int) = hipDeviceGetPCIBusId;
hipError_t (*const attribute)(int *, hipDeviceAttribute_t, int) = hipDeviceGetAttribute;
hipError_t (*const info)(size_t *, size_t *) = hipMemGetInfo;
hipError_t (*const allocate)(void **, size_t) = hipMalloc;
hipError_t (*const release)(void *) = hipFree;
hipError_t (*const create)(hipStream_t *, unsigned int) = hipStreamCreateWithFlags;
hipError_t (*const destroy)(hipStream_t) = hipStreamDestroy;
hipError_t (*const synchronize)(hipStream_t) = hipStreamSynchronize;
hipError_t (*const wait)(hipStream_t, hipEvent_t, unsigned int) = hipStreamWaitEvent;
hipError_t (*const event)(hipEvent_t *, unsigned int) = hipEventCreateWithFlags;
hipError_t (*const no_event)(hipEvent_t) = hipEventDestroy;
hipError_t (*const record)(hipEvent_t, hipStream_t) = hipEventRecord;
hipError_t (*const copy)(void *, const void *, size_t, hipMemcpyKind, hipStream_t) = hipMemcpyAsync;
hipError_t (*const fill8)(hipDeviceptr_t, unsigned char, size_t, hipStream_t) = hipMemsetD8Async;
hipError_t (*const fill16)(hipDeviceptr_t, unsigned short, size_t, hipStream_t) = hipMemsetD16Async;
hipError_t (*const fill32)(hipDeviceptr_t, int, size_t, hipStream_t) = hipMemsetD32Async;

/* Captures and graphs; a driver may lack them. */
hipError_t (*const begin_capture)(hipStream_t, hipStreamCaptureMode) = hipStreamBeginCapture;
hipError_t (*const end_capture)(hipStream_t, hipGraph_t *) = hipStreamEndCapture;
hipError_t (*const capture)(hipStream_t, hipStreamCaptureStatus *, unsigned long long *) = hipStreamGetCaptureInfo;
hipError_t (*const instantiate)(hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t) = hipGraphInstantiate;
hipError_t (*const launch)(hipGraphExec_t, hipStream_t) = hipGraphLaunch;
hipError_t (*const no_executable)(hipGraphExec_t) = hipGraphExecDestroy;
hipError_t (*const no_graph)(hipGraph_t) = hipGraphDestroy;

/* Virtual memory; a driver may lack it. Its addresses are passed as 64-bit numbers. In HIP 5.2 the
   properties have another order and the device has no attribute that says whether it works; the
   backend asks for the attribute first, and so does not use what 5.2 has. */
SAME(sizeof(void *), sizeof(unsigned long long));
SAME(sizeof(hipMemGenericAllocationHandle_t), sizeof(void *));
SAME(sizeof(hipMemAllocationGranularity_flags), sizeof(unsigned int));
SAME(hipMemAllocationGranularityRecommended, 1);
SAME(hipMemAllocationTypePinned, 1);
SAME(hipMemHandleTypeNone, 0);
SAME(hipMemLocationTypeDevice, 1);
SAME(hipMemAccessFlagsProtReadWrite, 3);
SAME(sizeof(hipMemLocation), 8);
SAME(offsetof(hipMemLocation, id), 4);
SAME(sizeof(hipMemAccessDesc), 12);
SAME(offsetof(hipMemAccessDesc, flags), 8);
SAME(sizeof(hipMemAllocationProp), 32);
#if HIP_VERSION_MAJOR > 5
SAME(hipDeviceAttributeVirtualMemoryManagementSupported, 89);
SAME(offsetof(hipMemAllocationProp, type), 0);
SAME(offsetof(hipMemAllocationProp, requestedHandleType), 4);
SAME(offsetof(hipMemAllocationProp, location), 8);
SAME(offsetof(hipMemAllocationProp, win32HandleMetaData), 16);
SAME(offsetof(hipMemAllocationProp, allocFlags), 24);
#endif
hipError_t (*const granularity)(size_t *, const hipMemAllocationProp *, hipMemAllocationGranularity_flags) = hipMemGetAllocationGranularity;
hipError_t (*const reserve)(void **, size_t, size_t, void *, unsigned long long) = hipMemAddressReserve;
hipError_t (*const no_reserve)(void *, size_t) = hipMemAddressFree;
hipError_t (*const piece)(hipMemGenericAllocationHandle_t *, size_t, const hipMemAllocationProp *, unsigned long long) = hipMemCreate;
hipError_t (*const no_piece)(hipMemGenericAllocationHandle_t) = hipMemRelease;
hipError_t (*const map)(void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long) = hipMemMap;
hipError_t (*const unmap)(void *, size_t) = hipMemUnmap;
hipError_t (*const allow)(void *, size_t, const hipMemAccessDesc *, size_t) = hipMemSetAccess;

/* What keeps a workspace alive with a graph came with HIP 5.3. */
#if HIP_VERSION_MAJOR > 5 || HIP_VERSION_MINOR >= 3
SAME(sizeof(hipUserObject_t), sizeof(void *));
SAME(hipUserObjectNoDestructorSync, 1);
SAME(hipGraphUserObjectMove, 1);
hipError_t (*const object)(hipUserObject_t *, void *, hipHostFn_t, unsigned int, unsigned int) = hipUserObjectCreate;
hipError_t (*const no_object)(hipUserObject_t, unsigned int) = hipUserObjectRelease;
hipError_t (*const retain)(hipGraph_t, hipUserObject_t, unsigned int, unsigned int) = hipGraphRetainUserObject;
#endif
