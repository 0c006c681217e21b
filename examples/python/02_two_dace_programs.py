"""02: two DaCe programs whose transients take turns in one workspace.

Needs DaCe and a C++ compiler.
"""

import dace
import numpy as np

import workslab
import workslab.dace

N = dace.symbol("N")


@dace.program
def smooth(field: dace.float64[N], out: dace.float64[N]):
    once = np.empty_like(field)
    twice = np.empty_like(field)
    thrice = np.empty_like(field)
    for i in dace.map[0:N]:
        once[i] = field[i] + field[(i + 1) % N]
    for i in dace.map[0:N]:
        twice[i] = once[i] + once[(i + 1) % N]
    for i in dace.map[0:N]:
        thrice[i] = twice[i] + twice[(i + 1) % N]
    for i in dace.map[0:N]:
        out[i] = 0.125 * (thrice[i] + thrice[(i + 1) % N])


@dace.program
def square(field: dace.float64[N], out: dace.float64[N]):
    squared = np.empty_like(field)
    for i in dace.map[0:N]:
        squared[i] = field[i] * field[i]
    for i in dace.map[0:N]:
        out[i] = squared[i] - squared[(i + 1) % N]


workspace = workslab.ExternalWorkspaceAllocator("host").allocate(0, "1MiB")
field = np.arange(1000.0)
results = {}
for program in (smooth, square):
    sdfg = program.to_sdfg(simplify=False)
    workslab.dace.use_external_memory(sdfg)
    plan = workslab.dace.plan(sdfg, symbols={"N": 1000})
    compiled = sdfg.compile()
    out = np.zeros(1000)
    compiled.initialize(field=field, out=out, N=1000)
    needed = workslab.dace.bind(compiled, workspace)
    with workspace.lease():
        compiled(field=field, out=out, N=1000)
    alone = sum(storage.dace_bytes({"N": 1000}) for storage in plan.storages)
    print(f"{sdfg.name}: {needed} bytes of the workspace, {alone} without a plan")
    results[program.name] = out


def shifted(values):
    return np.roll(values, -1)


once = field + shifted(field)
twice = once + shifted(once)
thrice = twice + shifted(twice)
assert (results["smooth"] == 0.125 * (thrice + shifted(thrice))).all()
assert (results["square"] == field * field - shifted(field * field)).all()
