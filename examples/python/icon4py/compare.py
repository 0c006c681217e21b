"""04: programs of icon4py's dynamical core on its simple grid, with and without workslab.

    pip install icon4py-atmosphere-dycore==0.4.1 gt4py==1.2.1 dace==2.0.0a10 xarray netcdf4 cmake ninja
    python -O -W ignore examples/python/icon4py/compare.py [--bytes-only] [--gpu] [PART OF A PROGRAM'S NAME ...]

Prints, for each program whose name has one of the parts (all, if there are none), the bytes that DaCe would take for its
transients at the planner's sample of the symbols, those that the plan takes, and the lower bound. Then it runs the
program with scoped transients and in a workspace whose every byte was written before, and compares all fields bit by
bit. Lowering and compiling takes minutes per program. With --gpu, which needs CuPy and nvcc, all of it is on a GPU.
"""

import argparse
import sys

import numpy as np
from gt4py.next.program_processors.runners.dace import make_dace_backend as gt4py_backend
from programs import arguments, arrays, chosen, grid

import workslab
import workslab.gt4py


class Enough(Exception):
    """The plan is all that is wanted."""


def poison(workspace):
    if workspace.platform == "host":
        np.from_dlpack(workspace)[:] = 0xA5
    else:
        import cupy

        cupy.asarray(workspace)[:] = 0xA5


def run(program, backend, grid):
    values = arguments(program, grid)
    program.with_backend(backend)(**values, offset_provider=grid.tables)
    return arrays(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes-only", action="store_true", help="plan, and run nothing")
    parser.add_argument("part", nargs="*", help="of a program's name; all programs if there is none")
    parser.add_argument("--gpu", action="store_true", help="fields and workspace on an NVIDIA or AMD GPU")
    asked = parser.parse_args()
    programs = chosen(asked.part, parser)
    config = workslab.BackendConfig(workspace_size="64MiB")
    plan = workslab.gt4py.plan

    def shown(sdfg, **keywords):
        made = plan(sdfg, **keywords)
        for storage in made.storages:
            dace, planned, bound = storage.dace_bytes({}), storage.bytes({}), storage.lower_bound({})
            print(f"| {sdfg.name} | {len(storage.arrays)} | {dace} | {planned} | {bound} | {planned / dace:.3f} |", flush=True)
        if not made.storages:
            print(f"| {sdfg.name} | 0 | | | | |", flush=True)
        if asked.bytes_only:
            raise Enough
        return made

    workslab.gt4py.plan = shown
    print("| program | arrays | DaCe | planned | lower bound | planned / DaCe |")
    scoped = gt4py_backend(gpu=asked.gpu)
    small = grid(scoped)
    different = []
    for name, program in programs:
        backend = workslab.gt4py.make_dace_backend(gpu=asked.gpu, config=config)
        (workspace,) = backend.external_workspace.values()
        poison(workspace)
        try:
            ours = run(program, backend, small)
        except Enough:
            continue
        theirs = run(program, scoped, small)
        if all(np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, theirs, strict=True)):
            print(f"{name}: {len(ours)} fields, bit-identical", flush=True)
        else:
            different.append(name)
    if different:
        sys.exit(f"results differ: {', '.join(different)}")


if __name__ == "__main__":
    main()
