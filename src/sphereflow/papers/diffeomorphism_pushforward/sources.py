"""Where the statements of the paper were read: its abstract and texts about it."""

from __future__ import annotations

from sphereflow.claims import basis

GENERAL = basis.Abstract("general maps: a compressible part made exactly, and permutations made of shears")
REGULAR = basis.Abstract("regular maps: a random construction whose switches do not blow up with the dimension")
BOTH = basis.Abstract("one flow is close to the map and carries the measure close to its image")
OURS = basis.Derived("the abstract's plan, worked out here; the paper's own construction may differ in form")
