"""What the pools of CuPy and PyTorch cost for 24 arrays of 8 MiB, allocated in turn and then given back.

Called from Python, as their users do, so the interpreter's time is in it. Prints one JSON object.
"""

import json
import statistics
import time

ARRAYS, BYTES, SAMPLES, ITERATIONS = 24, 8 << 20, 41, 100


def measure(allocate, free):
    """The median over samples of nanoseconds for one program."""
    samples = []
    for _ in range(SAMPLES + 1):
        since = time.perf_counter_ns()
        for _ in range(ITERATIONS):
            memory = [allocate(BYTES) for _ in range(ARRAYS)]
            for one in memory:
                free(one)
            del memory
        samples.append((time.perf_counter_ns() - since) / ITERATIONS)
    return {"median": statistics.median(samples[1:])}


def main():
    results = {}
    try:
        import cupy

        pool = cupy.cuda.MemoryPool()
        results["memory/CuPy pool"] = measure(pool.malloc, lambda _: None)
    except ImportError as error:
        results["skipped CuPy"] = str(error)
    try:
        import torch

        torch.cuda.init()
        results["memory/PyTorch allocator"] = measure(
            torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete
        )
    except ImportError as error:
        results["skipped PyTorch"] = str(error)
    print(json.dumps({"nanoseconds": results}))


if __name__ == "__main__":
    main()
