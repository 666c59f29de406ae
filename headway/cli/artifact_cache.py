"""`headway artifact-cache`: the loop that keeps a pool's artifacts on its node and hands them to their tenants' pods."""

import queue
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.listening_place import listening_place
from headway.cli.loop_process import kubeconfig, reaching, say, told_to_end


def artifact_cache(
    pool: Annotated[str, typer.Option(help="The pool whose releases' artifacts are kept.")],
    folder: Annotated[Path, typer.Option(help="Where they are kept.")],
    room: Annotated[int, typer.Option(min=1, help="Bytes that they may take.")],
    serve: Annotated[str, typer.Option(help="Address and port for pods.")] = "127.0.0.1:0",
    metrics: Annotated[int, typer.Option(min=0, max=65535, help="Port of metrics and health.")] = 0,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="As the pod's own service account, not by KUBECONFIG.")] = False,
) -> None:
    """Keep the artifacts of a pool's releases on this node, and hand each to pods of the tenant that it belongs to.

    Runs until it is stopped. AWS credentials, region and endpoints come from the environment.
    """
    import boto3

    from headway.artifact_cache import loop
    from headway.artifact_cache.callers import Callers
    from headway.artifact_cache.cluster import ArtifactCluster
    from headway.artifact_cache.serving import CacheStatus, served
    from headway.artifact_cache.store import ArtifactStore

    address, port = listening_place(serve)
    with reaching():
        cluster = ArtifactCluster(kubeconfig(in_cluster=in_cluster))
    watched = CacheStatus(ArtifactStore(folder, room, time.monotonic))
    stop, heard = told_to_end(), queue.SimpleQueue[loop.Configurations]()
    with served(watched, Callers(cluster.user_of, time.monotonic), address, port, metrics) as (files, shown):
        say(f"serving on {address}:{files}, metrics on {address}:{shown}")
        hearing = threading.Thread(target=loop.hear, args=(cluster, pool, heard, stop, say), daemon=True)
        keeping = threading.Thread(target=loop.keep, args=(watched, loop.downloads(boto3.client("s3")), heard, stop, say), daemon=True)
        for worker in (hearing, keeping):
            worker.start()
        watched.workers = (hearing, keeping)
        # The threads wait for the next change; the process need not.
        stop.wait()
