"""04: programs of icon4py's dynamical core on its simple grid, with and without workslab.

    pip install icon4py-atmosphere-dycore==0.4.1 gt4py==1.2.1 dace==2.0.0a10 xarray netcdf4 cmake ninja
    python -O -W ignore examples/python/icon4py/compare.py [--bytes-only]

Prints, for each program, the bytes that DaCe would take for its transients at the planner's sample of the symbols, those
that the plan takes, and the lower bound. Then it runs the program with scoped transients and in a workspace whose every
byte was written before, and compares all fields bit by bit. Lowering and compiling takes minutes per program.
"""

import sys

import gt4py.next as gtx
import numpy as np
from gt4py.next.program_processors.runners.dace import make_dace_backend as gt4py_backend
from gt4py.next.type_system import type_specifications as ts
from icon4py.model.atmosphere.dycore.stencils import vertically_implicit_dycore_solver as solvers
from icon4py.model.common.grid import simple

import workslab
import workslab.gt4py

LEVELS = 10
PROGRAMS = (
    solvers.vertically_implicit_solver_at_predictor_step,
    solvers.vertically_implicit_solver_at_corrector_step,
)


class Enough(Exception):
    """The plan is all that is wanted."""


def field(random, of, sizes):
    shape = [sizes[dimension.value] for dimension in of.dims]
    kind = of.dtype.kind.name
    if kind == "BOOL":
        values = random.uniform(size=shape) > 0.5
    elif kind.startswith("FLOAT"):
        values = random.uniform(0.5, 1.5, shape)
    else:
        values = random.integers(0, LEVELS, shape).astype(np.int32)
    return gtx.as_field(list(of.dims), values)


def scalar(name, of, sizes):
    kind = of.kind.name
    if kind == "BOOL":
        return False
    if kind.startswith("FLOAT"):
        return np.float64(0.5)
    if "start" in name:
        return np.int32(0)
    if "cell" in name or "horizontal" in name:
        return np.int32(sizes["Cell"])
    return np.int32(LEVELS if "vertical" in name or "lev" in name.split("_") else 1)


def arguments(program, grid):
    """Values of the right types and shapes; the same whenever they are made."""
    random = np.random.default_rng(0)
    sizes = {"Cell": grid.num_cells, "Edge": grid.num_edges, "Vertex": grid.num_vertices, "K": LEVELS + 1, "C2E": 3}
    made = {}
    for parameter in program.past_stage.past_node.params:
        of, name = parameter.type, parameter.id
        if isinstance(of, ts.TupleType):
            made[name] = tuple(field(random, one, sizes) for one in of.types)
        elif isinstance(of, ts.FieldType):
            made[name] = field(random, of, sizes)
        else:
            made[name] = scalar(name, of, sizes)
    return made


def run(program, backend, grid):
    values = arguments(program, grid)
    program.with_backend(backend)(**values, offset_provider=grid.connectivities)
    flat = []
    for value in values.values():
        flat.extend(value if isinstance(value, tuple) else [value])
    return [one.asnumpy() for one in flat if hasattr(one, "asnumpy")]


def main():
    bytes_only = "--bytes-only" in sys.argv[1:]
    grid = simple.simple_grid()
    config = workslab.BackendConfig(workspace_size="64MiB")
    plan = workslab.gt4py.plan

    def shown(sdfg, **keywords):
        made = plan(sdfg, **keywords)
        for storage in made.storages:
            dace, planned, bound = storage.dace_bytes({}), storage.bytes({}), storage.lower_bound({})
            print(f"| {sdfg.name} | {len(storage.arrays)} | {dace} | {planned} | {bound} | {planned / dace:.3f} |", flush=True)
        if bytes_only:
            raise Enough
        return made

    workslab.gt4py.plan = shown
    print("| program | arrays | DaCe | planned | lower bound | planned / DaCe |")
    different = []
    for program in PROGRAMS:
        backend = workslab.gt4py.make_dace_backend(config=config)
        (workspace,) = backend.external_workspace.values()
        np.from_dlpack(workspace)[:] = 0xA5
        try:
            ours = run(program, backend, grid)
        except Enough:
            continue
        theirs = run(program, gt4py_backend(gpu=False), grid)
        if all(np.array_equal(one, other, equal_nan=True) for one, other in zip(ours, theirs, strict=True)):
            print(f"{program.__name__}: {len(ours)} fields, bit-identical")
        else:
            different.append(program.__name__)
    if different:
        sys.exit(f"results differ: {', '.join(different)}")


if __name__ == "__main__":
    main()
