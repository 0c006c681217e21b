"""01: an array of numpy that lies in a workspace, without a copy.

Run with `python examples/python/01_array_from_a_workspace.py` after `pip install` of the wheel.
"""

import numpy as np

import workslab

allocator = workslab.ExternalWorkspaceAllocator("host")
workspace = allocator.allocate(0, "1MiB")

# Whoever computes holds the lease; the next one starts after this one's work.
with workspace.lease():
    temperature = np.from_dlpack(workspace)[: 1000 * 8].view(np.float64)
    temperature[:] = 273.5
    print(f"{temperature.size} values at {temperature.ctypes.data:#x}, mean {temperature.mean()}")
    assert temperature.ctypes.data == workspace.ptr

# Asking again is a hit: the same memory, and no call of a driver.
assert allocator.allocate(0, "1MiB").ptr == workspace.ptr
try:
    allocator.allocate(0, "2MiB")
except ValueError as error:
    print(f"as it should be: {error}")
else:
    raise SystemExit("a second size should have been refused")
