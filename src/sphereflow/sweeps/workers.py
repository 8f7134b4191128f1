"""Where blocks are computed: in this process, in local worker processes, or on a Dask cluster that runs elsewhere.

Dask is the engine: it hands out work, notices workers that die, and gives their work to others. This process alone
writes. Every local worker is confined to its share of the processor cores before JAX looks at them, so that two
workers do not fight for the same ones; on a GPU none takes all of the memory for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sphereflow import provenance
from sphereflow.errors import MissingExtra, SphereflowError
from sphereflow.runtime import confine, main_left_out

_AHEAD = 3  # blocks per worker that are handed out at a time: enough to keep it busy, little to lose
_PATIENCE_SECONDS = 10

# What cells are computed with: another version of one of these does not go on with a sweep.

Work = Callable[[Any], Any]
Computed = Iterator[tuple[Any, Any]]


def here(work: Work, pieces: Iterable[Any]) -> Computed:
    """One piece after the other, in this process."""
    for piece in pieces:
        yield piece, work(piece)


def on_cluster(client: Any, work: Work, pieces: Iterable[Any]) -> Computed:
    """On the workers of a Dask client, in the order in which they finish; a rolling window bounds the memory."""
    from distributed import as_completed

    waiting = iter(pieces)
    running: dict[Any, Any] = {}
    done = as_completed(loop=client.loop)

    def hand_out() -> None:
        for piece in waiting:
            future = client.submit(work, piece, pure=False)
            running[future] = piece
            done.add(future)
            return

    for _ in range(_AHEAD * max(len(client.scheduler_info(n_workers=-1)["workers"]), 1)):
        hand_out()
    for future in done:
        piece = running.pop(future)
        value = future.result()
        future.release()
        hand_out()
        yield piece, value


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Any]:
    """A Dask client: of a new local cluster of `workers` processes, or of the cluster at `scheduler`."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise MissingExtra("distributed", "sweep", "a sweep with workers") from None
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=_PATIENCE_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError):
            raise SphereflowError(
                f"no Dask scheduler answers at {scheduler}: start one with 'dask scheduler', or use --workers."
            ) from None
        with client:
            same_versions(client.run(provenance.versions))
            yield client
        return
    assert workers is not None
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    with main_left_out():  # to the end: a worker that dies is started anew
        try:
            local = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                memory_limit=0,
                env=environment,
                silence_logs=50,
            )
        except (OSError, RuntimeError) as error:
            raise SphereflowError(f"the {workers} worker processes could not be started: {error}") from None
        with local as cluster, Client(cluster, set_as_default=False) as client:
            client.register_plugin(_confinement(workers))
            yield client


def same_versions(workers: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse workers that would compute with other packages than this process, by which a sweep is known."""
    mine = provenance.versions()
    for address, theirs in workers.items():
        for name in provenance.COMPUTING:
            if theirs.get(name) != mine.get(name):
                raise SphereflowError(
                    f"the worker at {address} has {name} {theirs.get(name)}, and this process {mine.get(name)}."
                )


def _confinement(workers: int) -> Any:
    """A plugin that gives each worker its own cores as it starts, also when it is started anew."""
    from distributed import WorkerPlugin

    class Confinement(WorkerPlugin):
        name = "sphereflow-confinement"

        def setup(self, worker: Any) -> None:
            confine(int(worker.name), workers)

    return Confinement()
