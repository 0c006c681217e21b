"""Draws what the GPU bundle measured: python plot.py IMAGE.svg RESULTS..., where the results are its bench.log, peers.log and
rmm.log. Needs matplotlib."""

import json
import sys

import matplotlib.pyplot as plt

CASES = {
    "memory/workslab": "workslab",
    "memory/RMM pool, 1 thread": "RMM pool",
    "memory/cuMemAllocAsync, kept pool": "cuMemAllocAsync, kept pool",
    "memory/CuPy pool": "CuPy's pool (from Python)",
    "memory/RMM arena, 1 thread": "RMM arena",
    "memory/RMM async, 1 thread": "RMM async",
    "memory/PyTorch allocator": "PyTorch's allocator (from Python)",
    "memory/cuMemAlloc": "cuMemAlloc",
}


def main(image, *files):
    found = {}
    for file in files:
        for line in open(file, encoding="utf-8"):
            found |= json.loads(line)["nanoseconds"]
    values = sorted((found[case]["median"] / 1e3, name) for case, name in CASES.items())
    times, names = zip(*values)
    plt.rcParams["svg.hashsalt"] = "workslab"
    figure, axes = plt.subplots(figsize=(8, 3.2), layout="constrained")
    colours = ["#b5651d" if name == "workslab" else "#7a8ba0" for name in names]
    bars = axes.barh(names, times, color=colours)
    axes.bar_label(bars, [f"{time:.2g} µs" if time < 1 else f"{time:.0f} µs" for time in times], padding=4)
    axes.set(xscale="log", xlim=(0.03, 2e4), xlabel="µs, median (logarithmic)")
    axes.set_title("24 arrays of 8 MiB handed out and given back, one NVIDIA H200", loc="left", fontsize=11)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(image, metadata={"Date": None} if image.endswith("svg") else None)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
