"""How long a program of icon4py takes with each way to keep its transients.

    pip install icon4py-atmosphere-dycore==0.4.1 gt4py==1.2.1 dace==2.0.0a10 xarray netcdf4 cmake ninja
    python -O -W ignore examples/python/icon4py/modes.py [--copies 500] [--levels 65] [--calls 30] [PART ...]

The modes take turns, call by call, so that what else happens on the machine happens to all of them. Afterwards the
fields of all modes must be the same, bit by bit.
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


def backends(size):
    """The ways, by their names, and the workspaces of those that have one."""
    made = {
        mode.name: gt4py_backend(gpu=False, optimization_args={"transient_memory_mode": mode})
        for mode in (TransientMemoryMode.SCOPED, TransientMemoryMode.POOL, TransientMemoryMode.PERSISTENT)
    }
    config = workslab.BackendConfig(workspace_size=size)
    made["EXTERNAL, as DaCe places"] = make_dace_backend(config=config, plan_transients=False)
    made["EXTERNAL, planned by workslab"] = make_dace_backend(config=config)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--copies", type=int, default=500, help="of the simple grid, of 18 cells each (500)")
    parser.add_argument("--levels", type=int, default=65)
    parser.add_argument("--calls", type=int, default=30, help="that are measured, of each mode (30)")
    parser.add_argument("--workspace", default="512MiB", help="its size (512MiB)")
    parser.add_argument("part", nargs="*", help="of a program's name (predictor_step)")
    asked = parser.parse_args()
    programs = chosen(asked.part or ["predictor_step"], parser)
    for name in ("copies", "levels", "calls"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name} {getattr(asked, name)}: give at least 1")
    large = grid(asked.copies, asked.levels)
    for name, program in programs:
        print(f"{name}, {large.sizes['Cell']} cells, {asked.levels} levels, {asked.calls} calls of each, in turn")
        compiled = {mode: program.with_backend(backend) for mode, backend in backends(asked.workspace).items()}
        values = {mode: arguments(program, large) for mode in compiled}
        times = {mode: [] for mode in compiled}
        for turn in range(asked.calls + 2):
            for mode, call in compiled.items():
                begin = time.perf_counter()
                call(**values[mode], offset_provider=large.tables)
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
