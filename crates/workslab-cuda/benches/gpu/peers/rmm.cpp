// What RMM's memory resources cost for 24 arrays of 8 MiB on one stream: allocated in turn, then given
// back. Prints one JSON object, as main.rs beside this does; with several threads each has a stream of its own and all
// use one resource.
//
// g++ -O2 -std=c++20 -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE rmm.cpp -lrmm -lrapids_logger -lcudart

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/resource_ref.hpp>

namespace {

constexpr int arrays = 24;
constexpr std::size_t bytes = std::size_t{8} << 20;
constexpr int samples = 41;

void check(cudaError_t code)
{
  if (code != cudaSuccess) {
    std::fprintf(stderr, "rmm: %s\n", cudaGetErrorString(code));
    std::exit(1);
  }
}

void once(rmm::device_async_resource_ref resource, cudaStream_t stream)
{
  cuda::stream_ref on{stream};
  std::array<void*, arrays> all{};
  for (auto& one : all) { one = resource.allocate(on, bytes, 256); }
  for (auto* one : all) { resource.deallocate(on, one, bytes, 256); }
}

// The median over samples of what one thread takes for one program, in nanoseconds.
double measure(rmm::device_async_resource_ref resource, int threads, int iterations)
{
  std::vector<cudaStream_t> streams(threads);
  for (auto& stream : streams) { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  std::vector<double> all;
  for (int sample = 0; sample <= samples; ++sample) {
    std::vector<double> took(threads);
    std::vector<std::thread> workers;
    for (int thread = 0; thread < threads; ++thread) {
      workers.emplace_back([&, thread] {
        auto const since = std::chrono::steady_clock::now();
        for (int i = 0; i < iterations; ++i) { once(resource, streams[thread]); }
        std::chrono::duration<double, std::nano> const time = std::chrono::steady_clock::now() - since;
        took[thread] = time.count() / iterations;
      });
    }
    for (auto& worker : workers) { worker.join(); }
    // The first warms up.
    if (sample > 0) { all.push_back(*std::max_element(took.begin(), took.end())); }
  }
  for (auto& stream : streams) {
    check(cudaStreamSynchronize(stream));
    check(cudaStreamDestroy(stream));
  }
  std::sort(all.begin(), all.end());
  return all[samples / 2];
}

}  // namespace

int main()
{
  check(cudaSetDevice(0));
  constexpr std::size_t pool = std::size_t{4} << 30;
  rmm::mr::cuda_memory_resource cuda;
  rmm::mr::pool_memory_resource pooled{cuda, pool};
  rmm::mr::arena_memory_resource arena{cuda, pool};
  rmm::mr::cuda_async_memory_resource async{pool, pool};
  std::printf("{\"nanoseconds\": {");
  char const* comma = "";
  auto const report = [&](char const* name, rmm::device_async_resource_ref resource, int iterations) {
    for (int threads : {1, 8}) {
      std::printf("%s\"memory/RMM %s, %d thread%s\": {\"median\": %.1f}", comma, name, threads,
                  threads == 1 ? "" : "s", measure(resource, threads, iterations));
      comma = ", ";
    }
  };
  report("pool", pooled, 100);
  report("arena", arena, 100);
  report("async", async, 20);
  std::printf("}}\n");
}
