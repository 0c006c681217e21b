"""How long a program of icon4py takes with each way to keep its transients.

    pip install icon4py-atmosphere-dycore==0.4.1 gt4py==1.2.1 dace==2.0.0a10 xarray netcdf4 cmake ninja
    python -O -W ignore examples/python/icon4py/modes.py [--copies 500] [--levels 65] [--calls 30] [--gpu] [PART ...]

The modes take turns, call by call, so that what else happens on the machine happens to all of them. Afterwards the
fields of all modes must be the same, bit by bit. With --gpu, which needs CuPy and nvcc, all of it is on a GPU, and a call
is over when the GPU has done its work.
"""

import argparse
import statistics
import sys
import time

import numpy as np
from gt4py.next.program_processors.runners.dace import make_dace_backend as gt4py_backend
from programs import arguments, arrays, chosen, grid

import workslab
from workslab.gt4py import TransientMemoryMode, make_dace_backend


def backends(size, gpu):
    """The ways, by their names."""
    made = {
        mode.name: gt4py_backend(gpu=gpu, optimization_args={"transient_memory_mode": mode})
        for mode in (TransientMemoryMode.SCOPED, TransientMemoryMode.POOL, TransientMemoryMode.PERSISTENT)
    }
    config = workslab.BackendConfig(workspace_size=size)
    made["EXTERNAL, as DaCe places"] = make_dace_backend(gpu=gpu, config=config, plan_transients=False)
    made["EXTERNAL, planned by workslab"] = make_dace_backend(gpu=gpu, config=config)
    return made


def synchronizer(gpu):
    """What waits until all work is done: nothing, on the host."""
    if not gpu:
        return lambda: None
    import cupy

    return cupy.cuda.Device().synchronize


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=500, help="of the simple grid, of 18 cells each (500)")
    parser.add_argument("--levels", type=int, default=65)
    parser.add_argument("--calls", type=int, default=30, help="that are measured, of each mode (30)")
    parser.add_argument("--workspace", default="512MiB", help="its size (512MiB)")
    parser.add_argument("--gpu", action="store_true", help="fields and workspace on an NVIDIA or AMD GPU")
    parser.add_argument("part", nargs="*", help="of a program's name (predictor_step)")
    asked = parser.parse_args()
    programs = chosen(asked.part or ["predictor_step"], parser)
    for name in ("copies", "levels", "calls"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name} {getattr(asked, name)}: give at least 1")
    made = backends(asked.workspace, asked.gpu)
    large = grid(made["SCOPED"], asked.copies, asked.levels)
    synchronize = synchronizer(asked.gpu)
    for name, program in programs:
        print(f"{name}, {large.sizes['Cell']} cells, {asked.levels} levels, {asked.calls} calls of each, in turn")
        compiled = {mode: program.with_backend(backend) for mode, backend in made.items()}
        for call in compiled.values():
            call.compile(offset_provider=large.tables)  # side by side, in processes of GT4Py's
        values = {mode: arguments(program, large) for mode in compiled}
        times = {mode: [] for mode in compiled}
        for turn in range(asked.calls + 2):
            for mode, call in compiled.items():
                synchronize()
                begin = time.perf_counter()
                call(**values[mode], offset_provider=large.tables)
                synchronize()
                if turn > 1:  # before, it was compiled and its fields came to be in memory
                    times[mode].append(time.perf_counter() - begin)
        medians = {mode: statistics.median(taken) for mode, taken in times.items()}
        print("| transients | median | of SCOPED |\n| --- | ---: | ---: |")
        for mode, median in medians.items():
            print(f"| {mode} | {median * 1e3:.3f} ms | {median / medians['SCOPED']:.3f} |", flush=True)
        first, *others = (arrays(values[mode]) for mode in compiled)
        for other in others:
            if not all(np.array_equal(one, two, equal_nan=True) for one, two in zip(first, other, strict=True)):
                sys.exit(f"{name}: results differ")


if __name__ == "__main__":
    main()
