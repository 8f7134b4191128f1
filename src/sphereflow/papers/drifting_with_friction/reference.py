"""Margins of identifiability in sixty digits, by plain elimination: no code of the library, nothing rounded away."""

from __future__ import annotations

from decimal import Decimal, localcontext
from itertools import pairwise

Vector = list[Decimal]


def margin(kernel: str, low: str, high: str, nodes: int, width: str = "0.5", digits: int = 60) -> float:
    r"""$\min|Au|/(\sqrt N|u|)$ over $\sum u=0$ for equal weights on nodes of [-1, 1], seen at 2J + 1 places.

    Inverse iteration for the pencil $(T^\top A^\top AT,T^\top T)$, the columns of T being $e_j-e_{j+1}$.
    """
    with localcontext() as context:
        context.prec = digits
        y = [Decimal(-1) + Decimal(2 * j) / (nodes - 1) for j in range(nodes)]
        count = 2 * nodes + 1
        start, length, scale = Decimal(low), Decimal(high) - Decimal(low), Decimal(width)
        rows = []
        for i in range(count):
            x = start + length * i / (count - 1)
            away = [abs(x - each) / scale for each in y]
            k = [(-(a * a) / 2 if kernel == "gaussian" else -a).exp() for a in away]
            mean = sum((a * b for a, b in zip(k, y, strict=True)), Decimal(0)) / sum(k)
            row = [a * (b - mean) / sum(k) for a, b in zip(k, y, strict=True)]
            rows.append([a - b for a, b in pairwise(row)])
        gram = [[sum((r[i] * r[j] for r in rows), Decimal(0)) for j in range(nodes - 1)] for i in range(nodes - 1)]
        u = [Decimal(1) + Decimal(j * j) / 7 for j in range(nodes - 1)]
        value, before = Decimal(0), Decimal(1)
        while abs(value - before) > Decimal("1e-20") * value:
            right = _second_difference(u)
            new = _solved(gram, right)
            value, before = _dot(u, right) / _dot(new, right), value
            size = _dot(new, _second_difference(new)).sqrt()
            u = [each / size for each in new]
        return float((value / count).sqrt())


def _second_difference(u: Vector) -> Vector:
    """T^T T u, of the columns e_j - e_{j+1}."""
    inside = [Decimal(0), *u, Decimal(0)]
    return [2 * inside[j] - inside[j - 1] - inside[j + 1] for j in range(1, len(inside) - 1)]


def _solved(matrix: list[Vector], right: Vector) -> Vector:
    """Elimination with pivots."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        pivot = max(range(i, size), key=lambda j: abs(rows[j][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    solution = [Decimal(0)] * size
    for i in reversed(range(size)):
        known = sum((rows[i][j] * solution[j] for j in range(i + 1, size)), Decimal(0))
        solution[i] = (rows[i][size] - known) / rows[i][i]
    return solution


def _dot(a: Vector, b: Vector) -> Decimal:
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))
