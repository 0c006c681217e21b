/* A program that was linked against libamdhip64 like any other: it fills memory on one stream, hands it
   to a second by an event, and reads it back. `cargo xtask emulators` runs it on each library. */
#include <stddef.h>
#include <stdio.h>

int hipGetDeviceCount(int *);
int hipMalloc(void **, size_t);
int hipFree(void *);
int hipStreamCreateWithFlags(void **, unsigned);
int hipStreamDestroy(void *);
int hipStreamSynchronize(void *);
int hipEventCreateWithFlags(void **, unsigned);
int hipEventRecord(void *, void *);
int hipEventDestroy(void *);
int hipStreamWaitEvent(void *, void *, unsigned);
int hipMemsetD8Async(void *, unsigned char, size_t, void *);
int hipMemcpyAsync(void *, const void *, size_t, int, void *);

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
  void *memory, *first, *second, *event;
  int count;
  CHECK(hipGetDeviceCount(&count));
  CHECK(hipMalloc(&memory, SIZE));
  CHECK(hipStreamCreateWithFlags(&first, 1));
  CHECK(hipStreamCreateWithFlags(&second, 1));
  CHECK(hipEventCreateWithFlags(&event, 2));
  CHECK(hipMemsetD8Async(memory, 42, SIZE, first));
  CHECK(hipEventRecord(event, first));
  CHECK(hipStreamWaitEvent(second, event, 0));
  CHECK(hipMemcpyAsync(bytes, memory, SIZE, 2, second));
  CHECK(hipStreamSynchronize(second));
  for (int i = 0; i < SIZE; ++i) {
    if (bytes[i] != 42) {
      fprintf(stderr, "byte %d is %d\n", i, bytes[i]);
      return 1;
    }
  }
  CHECK(hipEventDestroy(event));
  CHECK(hipStreamDestroy(first));
  CHECK(hipStreamDestroy(second));
  CHECK(hipFree(memory));
  printf("%d devices, every byte right\n", count);
  return 0;
}
