/* A program that was linked against libcuda like any other: it fills memory on one stream, hands it to
   a second by an event, and reads it back. `cargo xtask emulators` runs it. */
#include <stddef.h>
#include <stdio.h>

int cuInit(unsigned);
int cuDeviceGetCount(int *);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemFree_v2(unsigned long long);
int cuStreamCreate(void **, unsigned);
int cuStreamDestroy_v2(void *);
int cuStreamSynchronize(void *);
int cuEventCreate(void **, unsigned);
int cuEventRecord(void *, void *);
int cuEventDestroy_v2(void *);
int cuStreamWaitEvent(void *, void *, unsigned);
int cuMemsetD8Async(unsigned long long, unsigned char, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, unsigned long long, size_t, void *);

#define CHECK(call)                                             \
  do {                                                          \
    int code = (call);                                          \
    if (code != 0) {                                            \
      fprintf(stderr, "%s: %d\n", #call, code);                 \
      return 1;                                                 \
    }                                                           \
  } while (0)

int main(void) {
  enum { SIZE = 1000 };
  unsigned char bytes[SIZE];
  unsigned long long memory;
  void *context, *first, *second, *event;
  int count;
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&count));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc_v2(&memory, SIZE));
  CHECK(cuStreamCreate(&first, 1));
  CHECK(cuStreamCreate(&second, 1));
  CHECK(cuEventCreate(&event, 2));
  CHECK(cuMemsetD8Async(memory, 42, SIZE, first));
  CHECK(cuEventRecord(event, first));
  CHECK(cuStreamWaitEvent(second, event, 0));
  CHECK(cuMemcpyDtoHAsync_v2(bytes, memory, SIZE, second));
  CHECK(cuStreamSynchronize(second));
  for (int i = 0; i < SIZE; ++i) {
    if (bytes[i] != 42) {
      fprintf(stderr, "byte %d is %d\n", i, bytes[i]);
      return 1;
    }
  }
  CHECK(cuEventDestroy_v2(event));
  CHECK(cuStreamDestroy_v2(first));
  CHECK(cuStreamDestroy_v2(second));
  CHECK(cuMemFree_v2(memory));
  printf("%d devices, every byte right\n", count);
  return 0;
}
