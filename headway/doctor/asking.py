"""Asks registries, S3, EKS and a cluster what `places` and `platform_needs` judge: read-only, and each silence says why."""

import base64
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headway.capacity.described import Described, cluster_name
from headway.doctor.check import Unanswered
from headway.doctor.places import BucketOwner
from headway.doctor.platform_needs import NeededSecret, PlatformNeeds
from headway.environment.aws import Clients
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.ecr import credentials_of
from headway.wire import GATEWAY_NAMESPACE

CONNECT_SECONDS = 5.0
AT_ONCE = 8


def bucket_owners(names: Sequence[str], layer: Described, clients: Clients) -> Mapping[str, BucketOwner] | Unanswered:
    """Whose bucket each name is (Amazon S3 API reference, HeadBucket: 404 nobody's, 403 another's or not ours to see)."""
    from botocore.exceptions import BotoCoreError, ClientError

    found: dict[str, BucketOwner] = {}
    try:
        s3 = clients("s3")
        for name in names:
            try:
                # The client follows S3 to the bucket's own region.
                answer = s3.head_bucket(Bucket=name, ExpectedBucketOwner=layer.account_id)
                found[name] = BucketOwner.OURS if answer.get("BucketRegion", layer.region) == layer.region else BucketOwner.ELSEWHERE
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status == 404:
                    found[name] = BucketOwner.NOBODY
                elif status in (301, 403):
                    found[name] = BucketOwner.ANOTHER
                else:
                    return Unanswered(f"S3 answers {status} for {name}")
    except BotoCoreError as error:
        return Unanswered(f"S3 did not answer ({error})")
    return found


def images_there(images: Sequence[str], clients: Clients) -> Mapping[str, bool | Unanswered]:
    """Whether each image, `host/path:tag` with or without a digest, is in its registry. All registries at once; one that
    does not answer is asked once, so that its silence does not last for every image."""
    by_host: dict[str, list[str]] = {}
    for image in images:
        by_host.setdefault(image.partition("/")[0], []).append(image)
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="images") as pool:
        asked = [pool.submit(_of_registry, host, those, clients) for host, those in by_host.items()]
    return {image: answer for each in asked for image, answer in each.result().items()}


def _of_registry(host: str, images: Sequence[str], clients: Clients) -> dict[str, bool | Unanswered]:
    from botocore.exceptions import BotoCoreError, ClientError

    docker = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    found: dict[str, bool | Unanswered] = {}
    try:
        client = RegistryClient(host, credentials_of(host, lambda _: clients("ecr"), docker))
        for image in images:
            named, _, digest = image.partition("/")[2].partition("@")
            repository, _, tag = named.partition(":")
            found[image] = client.digest_of(repository, digest or tag or "latest") is not None
    except UserError as failure:
        why = Unanswered(failure.fact.rstrip("."))
    except (BotoCoreError, ClientError) as failure:
        why = Unanswered(f"{host} gives no access ({type(failure).__name__})")
    else:
        return found
    return {image: found.get(image, why) for image in images}


def endpoint_answers(environment: str, clients: Clients) -> bool | Unanswered:
    """Whether the cluster's API server takes a connection from here; before it exists, nothing can be tried."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        endpoint = str(clients("eks").describe_cluster(name=cluster_name(environment))["cluster"].get("endpoint") or "")
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code")
        return Unanswered("there is no cluster yet" if code == "ResourceNotFoundException" else f"AWS refused DescribeCluster ({code})")
    except BotoCoreError as error:
        return Unanswered(f"EKS did not answer ({error})")
    if not endpoint:
        return Unanswered("the cluster is being made")
    try:
        socket.create_connection((urlsplit(endpoint).hostname or "", 443), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def own_addresses() -> tuple[str, ...]:
    """The IPv4 address from which this machine speaks to others."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: only a route is looked up
            return (str(probe.getsockname()[0]),)
    except OSError:
        return ()


def secrets_there(
    needed: Sequence[NeededSecret], cluster: Callable[[], KubernetesApi]
) -> dict[tuple[str, str], frozenset[str]] | Unanswered:
    """The keys of each secret that exists, never its values."""
    found: dict[tuple[str, str], frozenset[str]] = {}
    try:
        api = cluster()
        for secret in needed:
            body: dict[str, Any] | None = api.get(f"/api/v1/namespaces/{secret.namespace}/secrets/{secret.name}")
            if body is not None:
                filled = {key for key, value in (body.get("data") or {}).items() if base64.b64decode(value)}
                found[secret.namespace, secret.name] = frozenset(filled)
    except OutOfReachError as failure:
        return Unanswered(f"the API server does not answer: {failure}")
    except UserError as failure:
        return Unanswered(failure.fact.rstrip("."))
    return found


def certificate(needs: PlatformNeeds, cluster: Callable[[], KubernetesApi]) -> bytes | Unanswered | None:
    """The public part of the gateway's certificate; None where there is no such secret."""
    try:
        body = cluster().get(f"/api/v1/namespaces/{GATEWAY_NAMESPACE}/secrets/{needs.certificate}") if needs.certificate else None
    except OutOfReachError as failure:
        return Unanswered(f"the API server does not answer: {failure}")
    except UserError as failure:
        return Unanswered(failure.fact.rstrip("."))
    return base64.b64decode((body.get("data") or {}).get("tls.crt") or "") if body else None
