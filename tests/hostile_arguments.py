"""Every argument of the main functions of the areas, given wrongly: run as a program, it prints what happened as JSON.

In a process of its own, because in the tests annotations are checked and would speak first. What is given wrongly
follows from the type of a good value: numbers that are not finite, huge, negative or not whole, words, shapes.
"""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import sphereflow as sf
from sphereflow import drifting, landscape, memory, metastability, modes, retrieval, synchronisation, transport
from sphereflow import random_transformers as networks
from sphereflow.drifting import training
from sphereflow.errors import SphereflowError
from sphereflow.papers.drifting_with_friction.compute import recorded
from sphereflow.synchronisation import backward_equation, two_point
from sphereflow.synchronisation.covariance import of_powers

CIRCLE = np.stack([np.cos([0.0, 0.7, 2.0]), np.sin([0.0, 0.7, 2.0])], axis=1)
POINTS = np.random.default_rng(0).normal(size=(60, 1))
PAIRS = np.random.default_rng(2).normal(size=(200, 1))
ROWS = np.random.default_rng(3).normal(size=(50, 2))
PATTERNS = np.random.default_rng(1).normal(size=(6, 5))
PROBLEM = landscape.Problem(beta=2.0, outer=[1.0], inner=[[1.0, 0.0]])
ARCHITECTURE = {"d": 4, "n": 3, "layers": 5, "heads": 1, "step": 0.1, "beta": 1.0, "weight_scale": 1.0,
                "value_scale": 1.0}  # fmt: skip
THIRDS = np.full(3, 1 / 3)
UNIT = np.array([1.0, 0.0])
NAN, INFINITE = float("nan"), float("inf")
WHOLE = {"negative": -1, "fraction": 2.5, "nan": NAN, "infinite": INFINITE, "word": "x", "list": [1, 2], "vast": 2**70}
REAL = {"nan": NAN, "infinite": INFINITE, "minus infinity": -INFINITE, "negative": -1.0, "vast": 1e300, "word": "x",
        "list": [1.0, 2.0], "complex": 1j}  # fmt: skip
WORD = {"another word": "nonsense", "number": 3}

# name: (function, arguments that work)
LIGHT = drifting.light_bridge([1.0], [[0.0, 1.0]], [[0.5, 1.0]], 0.4)
VERBS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "simulate": (sf.simulate, {"n": 3, "d": 2, "beta": 1.0, "t1": 1.0, "model": "sa", "causal": False,
        "start": "uniform", "seed": 0, "saves": 3, "tol": 1e-6, "kernel_scale": "peak", "method": "auto"}),
    "landscape.Problem": (landscape.Problem, {"beta": 2.0, "outer": [1.0], "inner": [[1.0, 0.0]], "bias": [0.1],
        "activation": "relu", "kernel_scale": "peak"}),
    "landscape.minimise": (lambda nodes: landscape.minimise(PROBLEM, nodes), {"nodes": 100}),
    "landscape.maximise": (lambda nodes: landscape.maximise(PROBLEM, nodes), {"nodes": 100}),
    "landscape.energy": (lambda **k: landscape.energy(PROBLEM, **k), {"positions": CIRCLE, "masses": THIRDS}),
    "landscape.inspect": (lambda **k: landscape.inspect(PROBLEM, **k), {"positions": CIRCLE, "masses": THIRDS}),
    "landscape.first_variation": (lambda **k: landscape.first_variation(PROBLEM, **k),
        {"positions": CIRCLE, "masses": THIRDS, "at": CIRCLE}),
    "landscape.basins": (lambda **k: landscape.basins(PROBLEM, **k), {"starts": 12, "t1": 1.0}),
    "modes.find_modes": (modes.find_modes, {"samples": POINTS[:, 0], "beta": 4.0, "space": "line"}),
    "modes.expected_modes": (modes.expected_modes, {"n": 10, "beta": 4.0, "low": -1.0, "high": 1.0}),
    "modes.gaussian_modes": (modes.gaussian_modes, {"n": 10, "beta": 4.0, "low": -1.0, "high": 1.0}),
    "modes.mode_density": (modes.mode_density, {"t": np.array([0.1]), "n": 10, "beta": 4.0}),
    "modes.gaussian_density": (modes.gaussian_density, {"t": np.array([0.1]), "n": 10, "beta": 4.0}),
    "modes.edge": (modes.edge, {"n": 10, "beta": 4.0}),
    "modes.belt": (modes.belt, {"n": 10, "beta": 4.0}),
    "modes.belt_fraction": (modes.belt_fraction, {"n": 10, "beta": 4.0}),
    "modes.central_modes": (modes.central_modes, {"n": 10, "beta": 4.0}),
    "modes.saturated_rate": (modes.saturated_rate, {"beta": 4.0}),
    "modes.sparse_rate": (modes.sparse_rate, {"x": np.array([0.5])}),
    "modes.sample_modes": (modes.sample_modes, {"n": 5, "beta": 4.0, "repeats": 3, "seed": 0, "space": "line"}),
    "modes.circle_modes": (modes.circle_modes, {"beta": 4.0, "t": 0.1}),
    "modes.fastest_harmonic": (modes.fastest_harmonic, {"beta": 4.0}),
    "modes.limit_constant": (modes.limit_constant, {"a": 1.0}),
    "modes.mean_shift": (modes.mean_shift, {"samples": POINTS[:, 0], "beta": 4.0, "tol": 1e-6, "most": 500}),
    "metastability.merge_pair": (metastability.merge_pair, {"theta": 1.0, "beta": 5.0, "masses": (0.5, 0.5),
        "model": "sa", "end": 1e-3, "clock_stops": 0.01}),
    "metastability.laplace_log_time": (metastability.laplace_log_time, {"theta": 1.0, "beta": 5.0,
        "masses": (0.5, 0.5), "model": "sa"}),
    "metastability.coarsen_to_one": (metastability.coarsen_to_one, {"model": "sa", "x0": CIRCLE, "beta": 5.0,
        "masses": [1.0, 1.0, 1.0], "tol": 1e-6, "radius": 1e-3, "perturb": 1e-3, "max_time": 10.0, "seed": 1}),
    "metastability.staircase": (metastability.staircase, {"n": 3, "beta": 20.0, "seed": 0, "model": "sa", "d": 2}),
    "metastability.certify": (metastability.certify, {"x": CIRCLE, "beta": 50.0, "epsilon": 0.1}),
    "metastability.slow_modes": (metastability.slow_modes, {"x": CIRCLE, "masses": np.full(3, 1 / 3), "beta": 5.0,
        "model": "sa"}),
    "metastability.well_prepared": (metastability.well_prepared, {"angles": np.array([0.0, 0.2, 0.9]), "beta": 50.0}),
    "retrieval.profile": (retrieval.profile, {"beta": 1.0, "slope": 1.0, "t": 1.0, "vocab": 8, "readout": "soft",
        "weight": 1.0}),
    "retrieval.several_heads": (retrieval.several_heads, {"heads": [[1.0, 1.0, 1.0]], "t": 1.0, "vocab": 8}),
    "retrieval.critical_time": (retrieval.critical_time, {"beta": 1.0, "slope": 1.0, "vocab": 8, "readout": "soft"}),
    "retrieval.theorem_time": (retrieval.theorem_time, {"beta": 1.0, "slope": 1.0}),
    "retrieval.growth_rates": (retrieval.growth_rates, {"beta": 1.0, "count": 4}),
    "retrieval.sphere_growth_rates": (retrieval.sphere_growth_rates, {"beta": 1.0, "d": 3, "count": 4}),
    "retrieval.CausalCircle": (retrieval.CausalCircle, {"beta": 1.0, "weights": 1.0, "normalise": "mean", "modes": 8}),
    "retrieval.measure_profile": (retrieval.measure_profile, {"n": 8, "t": 0.2, "beta": 1.0, "weights": 1.0,
        "vocab": 4, "sources": (2,), "normalise": "mean", "prompt": "uniform", "repeats": 2, "seed": 0}),
    "retrieval.codewords": (retrieval.codewords, {"vocab": 4}),
    "retrieval.decode": (retrieval.decode, {"angles": np.array([0.1]), "vocab": 4}),
    "retrieval.equal_time_correlation": (retrieval.equal_time_correlation, {"a": 0.5, "t": 1.0, "sigma": 0.5,
        "s": 0.3, "slope": 1.0}),
    "retrieval.two_time_influence": (retrieval.two_time_influence, {"a": 0.5, "t": 1.0, "sigma": 1.0, "sigma0": 0.3,
        "slope": 1.0}),
    "retrieval.weight_matrix": (retrieval.weight_matrix, {"n": 4, "weights": 1.0}),
    "retrieval.decoder": (retrieval.decoder, {"beta": 1.0, "slope": 1.0, "n": 4, "d": 2, "normalise": "mean"}),
    "random_transformers.Architecture": (networks.Architecture, ARCHITECTURE),
    "random_transformers.predict": (lambda **k: networks.predict(networks.Architecture(**k)), ARCHITECTURE),
    "random_transformers.measure": (lambda **k: networks.measure(networks.Architecture(**ARCHITECTURE), **k),
        {"repeats": 2, "seed": 0}),
    "random_transformers.collapse_time": (lambda **k: networks.collapse_time(networks.Architecture(d=8, n=4, layers=9,
        heads=1, step=0.1, beta=1.0), **k), {"level": 0.5}),
    "random_transformers.solve_density": (networks.solve_density, {"density": [1.0, 0.3], "beta": 1.0, "t1": 0.1,
        "score": "product", "saveat": 2, "repeats": 2, "steps": 20, "modes": 4, "nodes": 1, "scheme": "generator",
        "seed": 0}),
    "random_transformers.solve_sphere_density": (networks.solve_sphere_density, {"density": np.eye(3)[:2], "beta": 1.0,
        "t1": 0.1, "score": "product", "saveat": 2, "repeats": 2, "steps": 20, "degree": 2, "nodes": 1, "seed": 0}),
    "random_transformers.clock": (networks.clock, {"d": 4, "layers": 5, "heads": 1, "step": 0.1, "value_scale": 1.0}),
    "random_transformers.weights": (networks.weights, {"score": "product", "d": 4, "score_scale": 1.0,
        "value": "gaussian", "value_scale": 1.0, "value_mean": 0.0}),
    "random_transformers.RandomNetwork": (lambda **k: networks.RandomNetwork(networks.weights(d=4), **k), {"beta": 1.0,
        "step": 0.1, "heads": 1, "attention": "softmax"}),
    "random_transformers.run": (lambda **k: networks.run(networks.RandomNetwork(networks.weights(d=2), 1.0, 0.1), **k,
        observe=lambda x: x), {"x0": CIRCLE[None], "layers": 2, "seed": 0}),
    "random_transformers.prompts": (networks.prompts, {}),
    "synchronisation.Backward.averages": (lambda **k: backward_equation.Backward(
        two_point.TwoPoint(3, of_powers([1.0])), cells=100).averages(lambda r: r, **k),
        {"times": [0.1, 0.2], "start": 0.3}),
    "transport.fit": (transport.fit, {"source": transport.gaussian(1), "target": POINTS, "pieces": 6,
        "method": "construct", "seed": 0, "steps": 2}),
    "transport.gaussianise": (transport.gaussianise, {"points": POINTS, "frames": 1, "knots": 4, "least_gain": 0.0,
        "seed": 0}),
    "transport.Schedule": (transport.Schedule, {"w": [[1.0]], "a": [[1.0]], "b": [0.0], "tau": [0.5]}),
    "transport.affine_schedule": (transport.affine_schedule, {"matrix": np.eye(2), "shift": np.ones(2)}),
    "transport.Mixture": (transport.Mixture, {"means": [[0.0], [1.0]], "scales": 1.0, "weights": [0.5, 0.5]}),
    "transport.gaussian": (transport.gaussian, {"d": 1, "mean": 0.0, "scale": 1.0}),
    "transport.StudentT": (transport.StudentT, {"nu": 3.0, "d": 1}),
    "transport.Histogram": (transport.Histogram, {"edges": [0.0, 1.0, 2.0], "masses": [0.5, 0.5]}),
    "transport.CellGrid": (transport.CellGrid, {"cells": 2, "knots": 4, "box": 5.0, "layer": 0.02}),
    "transport.fit_velocities": (transport.fit_velocities, {"start": POINTS, "end": POINTS + 1, "neurons": 4,
        "times": 2, "ridge": 1e-3, "reach": 3.0, "seed": 0}),
    "transport.fit_conditional": (transport.fit_conditional, {"samples_x": PAIRS, "samples_y": PAIRS[::-1].copy(),
        "pieces": 400, "neurons": 20, "times": 2, "neighbours": 8, "sampling": "swept", "ridge": 1e-3, "seed": 0}),
    "transport.interpolate": (transport.interpolate, {"sources": [CIRCLE[:1]], "targets": [CIRCLE[1:2]],
        "tol": 1e-3, "atoms": 2, "seed": 0}),
    "transport.Drift": (transport.Drift, {"duration": 1.0, "speed": 1.0, "omega": UNIT}),
    "transport.Gate": (transport.Gate, {"duration": 1.0, "speed": 1.0, "omega": UNIT, "a": UNIT, "beta": 0.1}),
    "transport.RankOne": (transport.RankOne, {"duration": 1.0, "speed": 1.0, "alpha": UNIT, "sign": 1.0}),
    "transport.Gathering": (transport.Gathering, {"duration": 1.0, "speed": 1.0, "d": 2, "beta": 0.1, "sign": 1.0}),
    "transport.TransformerBlock": (transport.TransformerBlock,
        {"duration": 1.0, "speed": 1.0, "V": np.eye(2), "B": np.eye(2)}),
    "memory.phase_diagram": (memory.phase_diagram, {"kernel": "lse", "sharpness": 1.0, "loads": np.array([0.1, 0.2]),
        "temperatures": np.array([0.2, 0.4]), "sizes": (10,), "duration": 1e3}),
    "memory.sweep": (memory.sweep, {"kernel": "lse", "sharpness": 1.0, "loads": (0.3,), "temperatures": (0.2,),
        "patterns": 20, "repeats": 2, "steps": 10, "seed": 0}),
    "memory.escape_time": (memory.escape_time, {"n": 20, "alpha": 0.1, "temperature": 0.5, "beta": 1.0, "start": 0.8,
        "stop": 0.3, "cells": 60}),
    "memory.log_escape_time": (memory.log_escape_time, {"n": 20, "beta": 1.0, "temperature": 0.5, "noise": 0.2,
        "cells": 60}),
    "memory.DenseMemory": (memory.DenseMemory, {"patterns": PATTERNS, "kernel": "lse", "beta": 2.0,
        "space": "sphere"}),
    "memory.recall": (lambda **k: memory.DenseMemory(PATTERNS).recall(**k), {"query": PATTERNS[:2], "steps": 2,
        "temperature": 0.1, "seed": 0}),
    "memory.random_patterns": (memory.random_patterns, {"n": 5, "count": 3, "seed": 0}),
    "memory.draw_cone": (memory.draw_cone, {"n": 10, "alpha": 0.2, "beta": 1.0, "keep": 0.4, "seed": 0}),
    "memory.sample_log_noise": (memory.sample_log_noise, {"n": 10, "alpha": 0.2, "beta": 1.0, "repeats": 3, "seed": 0}),
    "memory.LSE": (memory.LSE, {"beta": 1.0}),
    "memory.LSR": (memory.LSR, {"beta": 1.0, "floor": 0.0}),
    "memory.PolynomialEnergy": (memory.PolynomialEnergy, {"degree": 2}),
    "drifting.Friction": (drifting.Friction, {"mode": "gain", "start": 0.0, "end": 1.0, "horizon": 10}),
    "drifting.Recipe": (training.Recipe, {"steps": 10, "batch": 4, "rate": 1e-3, "optimiser": "adam", "decay": 0.9,
        "schedule": "linear", "seed": 0}),
    "drifting.PopulationField": (drifting.PopulationField, {"kernel": "laplace", "width": 1.0, "itself": "mask"}),
    "drifting.UnnormalisedField": (drifting.UnnormalisedField, {"kernel": "laplace", "width": 1.0}),
    "drifting.TwoSidedField": (drifting.TwoSidedField, {"width": 1.0, "kernel": "laplace"}),
    "drifting.MultiRadiusField": (drifting.MultiRadiusField, {"radii": (0.1, 0.2)}),
    "drifting.field": (lambda **k: drifting.PopulationField("laplace", 1.0, itself="mask")(**k), {"data": PATTERNS,
        "generated": PATTERNS + 1}),
    "drifting.spurious_scale": (drifting.spurious_scale, {"width": 1.0, "kernel": "laplace"}),
    "drifting.surrogate_field": (drifting.surrogate_field, {"a": [0.5], "width": 1.0, "kernel": "laplace"}),
    "drifting.gaussian_field": (drifting.gaussian_field, {"x": np.zeros((1, 2)), "data": (np.zeros(2), np.eye(2)),
        "generated": (np.ones(2), np.eye(2)), "width": 1.0}),
    "drifting.light_bridge": (drifting.light_bridge, {"weights": [1.0], "centres": np.zeros((1, 2)),
        "spreads": np.ones((1, 2)), "epsilon": 0.5}),
    "drifting.bridge_paths": (lambda **k: drifting.bridge_paths(LIGHT, **k).positions, {"x0": np.zeros((1, 2)),
        "saveat": [0.5, 1.0], "method": "bridge", "steps": 4, "seed": 0}),
    "drifting.bridge_log_density": (lambda **k: drifting.bridge_log_density(LIGHT, **k), {"x0": np.zeros((1, 2)),
        "places": np.zeros((1, 2)), "t": 0.5}),
    "drifting.gaussian_marginal": (drifting.gaussian_marginal, {"source": (np.zeros(2), np.eye(2)),
        "target": (np.ones(2), np.eye(2)), "epsilon": 0.5, "t": 0.5}),
    "drifting.bw_uvp": (drifting.bw_uvp, {"found": np.eye(2), "target": np.eye(2)}),
    "drifting.cbw_uvp": (drifting.cbw_uvp, {"found": np.zeros((1, 2, 2)), "truth": np.zeros((1, 2, 2)),
        "target": np.eye(2)}),
    "drifting.recover_law": (drifting.recover_law, {"kernel": "gaussian", "places": [0.0, 0.1], "nodes": [-1.0, 1.0],
        "field_values": [0.0, 0.1], "data": [-1.0, 1.0], "width": 1.0, "noise": 0.1, "data_weights": [0.5, 0.5]}),
    "drifting.field_margin": (drifting.field_margin, {"kernel": "gaussian", "places": [0.0, 0.1],
        "nodes": [-1.0, 1.0], "weights": [0.5, 0.5], "width": 1.0}),
    "drifting.hidden_law": (drifting.hidden_law, {"kernel": "gaussian", "places": [0.0, 0.1], "nodes": [-1.0, 1.0],
        "weights": [0.5, 0.5], "width": 1.0, "distance": 0.1, "starts": 5, "seed": 0}),
    "drifting.compute_ratios": (lambda **k: drifting.compute_ratios(recorded(2), **k), {"method": "drift",
        "other": "ofm", "levels": [0.7], "measured": "sliced", "repeats": 5, "seed": 0}),
    "drifting.quality_against_compute": (lambda **k: drifting.quality_against_compute(ROWS, ROWS + 1,
        methods=("affine",), budgets=(2,), seeds=(0,), **k), {"batch": 4, "width": 1.0, "epsilon": 0.1, "hidden": 8,
        "held_out": 5}),
    "memory.boundary": (memory.boundary, {"kernel": "lse", "sharpness": 1.0, "temperature": 2.0, "sizes": (20, 30),
        "states": 20, "repeats": 2, "seed": 0}),
    "memory.equilibrium_share": (memory.equilibrium_share, {"n": 10, "alpha": 0.2, "temperature": 0.5,
        "kernel": "lse", "sharpness": 1.0, "states": 20, "repeats": 2, "seed": 0}),
    "memory.temper": (memory.temper, {"patterns": PATTERNS, "kernel": "lse", "sharpness": 1.0, "temperature": 0.5,
        "repeats": 2, "steps": 20, "seed": 0}),
    "memory.hop_rate": (memory.hop_rate, {"n": 10, "rho": 0.6, "temperature": 0.5, "b": 3.4}),
    "memory.hop_survival": (memory.hop_survival, {"n": 10, "patterns": 5, "times": np.array([1.0]),
        "temperature": 0.5, "b": 3.4}),
    "memory.survival": (memory.survival, {"patterns": PATTERNS, "times": np.array([0.1]), "temperature": 0.5,
        "b": 3.4, "repeats": 5, "dt": 0.01, "seed": 0}),
    "memory.support_clusters": (memory.support_clusters, {"patterns": PATTERNS, "b": 3.4, "joined": "caps"}),
    "memory.percolation_load": (memory.percolation_load, {"b": 3.4, "joined": "caps"}),
    "memory.barrier_profile": (memory.barrier_profile, {"rho": 0.5, "b": 3.4, "points": 11}),
    "transport.switches_needed": (lambda **k: transport.switches_needed(transport.gaussian(1),
        transport.Mixture([[0.0], [1.0]], 0.7), **k), {"kl": [0.1], "seed": 0}),
    "transport.interpolation_costs": (transport.interpolation_costs, {"N": [2], "d": [3], "tol": [1e-2], "n": 10,
        "radius": 0.5, "seed": 0}),
    "transport.lagrange_interpolant": (lambda **k: transport.lagrange_interpolant(lambda x: x, **k), {"cells": 2,
        "box": [[0.0, 1.0], [0.0, 1.0]]}),
    "transport.ConditionalFlow": (lambda X, y, **k: transport.ConditionalFlow(**k).fit(X, y), {"X": PAIRS[:60],
        "y": PAIRS[60:120], "components": 2, "pieces": 5, "folds": 2, "seed": 0}),
    "synchronisation.strong_errors": (lambda **k: synchronisation.strong_errors("relu", **k), {"d": 2,
        "strength": 0.0, "beta": 1.0, "t1": 0.1, "depths": (2, 4), "n": 2, "layers": 4, "modes": 4, "repeats": 3,
        "seed": 0}),
    "synchronisation.circle_law": (lambda **k: synchronisation.circle_law("relu", **k), {
        "density": [1.0, 0.3, 1.0, 2.0], "strength": 0.0, "beta": 1.0, "t1": 0.1, "steps": 4, "saveat": 2, "modes": 4,
        "resolution": 8, "repeats": 3, "seed": 0}),
    "synchronisation.limit_orders": (lambda **k: synchronisation.limit_orders("relu", **k), {"strength": 0.0,
        "beta": 1.0, "t1": 0.1, "depths": (2, 4), "sizes": (2, 4), "modes": 4, "repeats": 3, "seed": 0}),
    "synchronisation.dissipation": (lambda **k: synchronisation.dissipation("relu", **k), {"d": 3,
        "times": [0.1, 0.2], "strength": 0.0, "beta": 1.0, "start": 0.3, "cells": 100}),
    "synchronisation.lyapunov_spectrum": (lambda **k: synchronisation.lyapunov_spectrum("relu", **k), {"d": 3,
        "count": 1, "width": 1, "step": 1e-3, "layers": 2, "repeats": 3, "seed": 0}),
    "synchronisation.coercivity_test": (lambda **k: synchronisation.coercivity_test("relu", **k), {"d": 3,
        "overlaps": [0.1, 0.5], "strength": 0.0, "beta": 1.0, "step": 1e-3, "repeats": 50, "seed": 0}),
}  # fmt: skip


# These compile for long: only what must be refused is tried.
HEAVY = {"landscape.basins", "retrieval.measure_profile", "random_transformers.measure", "transport.interpolate"}

# What looks wrong and is not: wrong values that have a right answer.
FINE: dict[str, set[str]] = {
    "simulate.t1": {"vast"},  # ends with a status that says so
    "landscape.Problem.bias": {"none"},
    "landscape.energy.masses": {"none"},
    "landscape.inspect.masses": {"none"},
    "landscape.first_variation.masses": {"none"},
    "modes.find_modes.samples": {"more axes"},
    "modes.expected_modes.n": {"fraction", "vast"},
    "modes.expected_modes.low": {"infinite", "minus infinity", "negative", "vast"},
    "modes.expected_modes.high": {"infinite", "minus infinity", "negative", "vast"},
    "modes.gaussian_modes.n": {"fraction", "vast"},
    "modes.gaussian_modes.low": {"negative", "infinite", "vast"},  # an empty interval
    "modes.gaussian_modes.high": {"negative", "minus infinity"},
    "modes.mode_density.t": {"more axes", "empty"},
    "modes.mode_density.n": {"fraction", "vast"},
    "modes.gaussian_density.t": {"more axes", "empty"},
    "modes.gaussian_density.n": {"fraction", "vast"},
    "modes.edge.n": {"fraction", "vast"},
    "modes.belt.n": {"fraction", "vast"},
    "modes.belt_fraction.n": {"fraction", "vast"},
    "modes.central_modes.n": {"fraction", "vast"},
    "modes.saturated_rate.beta": {"vast"},
    "modes.sparse_rate.x": {"infinite", "more axes", "empty", "vast"},  # the dense limit
    "modes.mean_shift.tol": {"vast"},
    "metastability.merge_pair.clock_stops": {"vast"},
    "metastability.coarsen_to_one.masses": {"none", "vast"},
    "metastability.coarsen_to_one.max_time": {"vast"},
    "metastability.certify.epsilon": {"vast"},  # nothing is separated
    "metastability.well_prepared.beta": {"vast"},
    "retrieval.profile.slope": {"negative"},
    "retrieval.profile.weight": {"negative"},
    "retrieval.critical_time.slope": {"negative"},
    "retrieval.theorem_time.slope": {"negative"},
    "retrieval.CausalCircle.weights": {"negative"},
    "retrieval.measure_profile.weights": {"negative"},
    "retrieval.decode.angles": {"more axes", "empty"},
    "retrieval.equal_time_correlation.a": {"negative"},
    "retrieval.equal_time_correlation.slope": {"negative"},
    "retrieval.two_time_influence.a": {"negative", "list"},
    "retrieval.two_time_influence.slope": {"negative"},
    "retrieval.weight_matrix.weights": {"negative"},
    "random_transformers.Architecture.beta": {"vast"},
    "random_transformers.Architecture.weight_scale": {"vast"},
    "random_transformers.predict.beta": {"vast"},
    "random_transformers.predict.weight_scale": {"vast"},
    "random_transformers.weights.score_scale": {"list"},
    "random_transformers.weights.value_scale": {"list"},
    "random_transformers.weights.value_mean": {"list", "negative"},
    "random_transformers.run.layers": {"list"},
    "transport.gaussianise.least_gain": {"vast"},
    "transport.Schedule.tau": {"none"},
    "transport.affine_schedule.shift": {"none"},
    "transport.Mixture.scales": {"list"},
    "transport.Mixture.weights": {"none"},
    "transport.gaussian.mean": {"negative"},
    "transport.CellGrid.box": {"vast"},
    "transport.Drift.speed": {"negative"},
    "transport.Gate.speed": {"negative"},
    "transport.Gate.beta": {"negative"},
    "transport.RankOne.speed": {"negative"},
    "transport.RankOne.sign": {"negative"},
    "transport.Gathering.speed": {"negative"},
    "transport.Gathering.beta": {"negative"},
    "transport.Gathering.sign": {"negative"},
    "transport.TransformerBlock.speed": {"negative"},
    "memory.phase_diagram.loads": {"none"},
    "memory.phase_diagram.temperatures": {"none"},
    "memory.phase_diagram.duration": {"vast"},
    "memory.phase_diagram.sizes": {"empty"},
    "memory.sweep.loads": {"none"},
    "memory.log_escape_time.temperature": {"list"},
    "memory.random_patterns.seed": {"list"},
    "memory.log_escape_time.noise": {"negative"},
    "drifting.Friction.start": {"vast"},
    "drifting.Friction.end": {"vast"},
    "drifting.field.data": {"nan", "infinite", "vast"},  # seen in the result: see the tests of the fields
    "drifting.field.generated": {"nan", "infinite", "vast"},
    "drifting.spurious_scale.width": {"vast"},
    "drifting.surrogate_field.a": {"more axes", "empty", "vast"},
    "drifting.surrogate_field.width": {"vast"},
    "drifting.gaussian_field.x": {"empty", "vast"},
    "drifting.compute_ratios.levels": {"none", "vast"},
    "drifting.quality_against_compute.width": {"vast"},
    "drifting.quality_against_compute.epsilon": {"vast"},
    "memory.hop_survival.times": {"more axes", "empty", "vast"},
    "memory.survival.patterns": {"more axes", "vast"},  # a set for each walker
    "memory.survival.times": {"vast"},
    "memory.survival.temperature": {"vast"},
    "memory.support_clusters.patterns": {"vast"},
    "memory.temper.patterns": {"vast"},
    "transport.switches_needed.kl": {"vast"},
    "transport.lagrange_interpolant.box": {"vast"},
    "transport.ConditionalFlow.components": {"list"},
    "synchronisation.strong_errors.strength": {"negative"},
    "synchronisation.strong_errors.depths": {"empty"},
    "synchronisation.circle_law.strength": {"negative"},
    "synchronisation.circle_law.density": {"vast"},  # a density up to a factor
    "synchronisation.limit_orders.strength": {"negative"},
    "synchronisation.dissipation.strength": {"negative"},
    "synchronisation.coercivity_test.strength": {"negative"},
    "drifting.recover_law.data_weights": {"none"},
    "drifting.field_margin.weights": {"none"},
    "drifting.hidden_law.weights": {"none"},
}


def wrong(value: Any) -> dict[str, Any]:
    """What to give instead of a value that works, each with a name."""
    if isinstance(value, (bool, str)):
        return WORD
    if isinstance(value, (int, float)):
        return WHOLE if isinstance(value, int) else REAL
    if isinstance(value, np.ndarray) or (isinstance(value, list) and not isinstance(value[0], np.ndarray)):
        array = np.asarray(value, dtype=float)
        return {"word": "x", "none": None, "nan": array * NAN, "infinite": np.full_like(array, INFINITE),
                "complex": array + 1j, "more axes": np.stack([array] * 3), "empty": array[:0],
                "ragged": [[1.0], [2.0, 3.0]], "vast": 1e300 * (1 + abs(array))}  # fmt: skip
    return {"word": "x", "none": None, "nan": NAN, "empty": []}


def outcome(call: Callable[..., Any], arguments: dict[str, Any]) -> str:
    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.block_until_ready(call(**arguments))
    except SphereflowError as error:
        told = str(error)
        return "refused" if told.endswith(".") and "\n" not in told else f"not a sentence: {told[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    finally:
        signal.alarm(0)
    return "accepted"


def main(chosen: list[str]) -> None:
    for name, (call, base) in VERBS.items():
        if not any(name.startswith(each) for each in chosen):
            continue
        if name not in HEAVY:
            print(json.dumps([name, "", "accepted", outcome(call, base)]), flush=True)
        for argument, value in base.items():
            fine = FINE.get(f"{name}.{argument}", set())
            for what, other in wrong(value).items():
                if what not in fine or name not in HEAVY:
                    expected = "accepted" if what in fine else "refused"
                    told = outcome(call, {**base, argument: other})
                    print(json.dumps([f"{name}({argument})", what, expected, told]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
