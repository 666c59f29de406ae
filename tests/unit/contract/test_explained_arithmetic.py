"""What `headway check --explain` says of each figure, line by line; the sums were reckoned by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.apart import apart
from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.fit import fit, fit_ram
from headway.contract.arithmetic.node import allocatable_memory, node_room
from headway.contract.arithmetic.pipelined import spanning
from headway.contract.arithmetic.quota import quota_use, spare_devices_by_quota
from headway.contract.arithmetic.startup import startup
from headway.contract.arithmetic.surge import surge
from headway.contract.arithmetic.system_pool import Workload, system_room
from headway.contract.arithmetic.tensor_parallel import link_lines
from headway.contract.explanation import Line, written
from headway.contract.pool import Pool, SystemPool
from headway.contract.units import Bytes, MilliCpu
from tests.contract_samples import (
    ASSIST,
    CHAT,
    CUSTOM,
    DEFECTS,
    EMBEDDINGS,
    H100_POOL,
    L4_POOL,
    MIG_POOL,
    PREFILL,
    SPANNING,
    model,
    pool,
    tenant,
)
from tests.unit.contract.test_contract_arithmetic import BATCH, MPS

MI, GI = 2**20, 2**30
DRAFT = {"path": "draft/model.safetensors", "sha256": "ab" * 32, "size": "1Gi"}
SPECULATING = {
    "artifact/files/9": DRAFT,
    "optimisation": {"speculation": {"method": "draft", "tokens": 3, "folder": "draft/"}},
    "envelope/gpu/count": 2,
}
UNJOINED = {
    "envelope/gpu": {"share": "whole", "accelerator": "l4", "count": 4, "memory": "20Gi"},
    "batching/max_batched_tokens": 4096,
    "optimisation": {},
}
SHARED = {**MPS, "envelope/gpu/memory": "5Gi"}
PODS = (
    Workload(name="agent", cpu=MilliCpu(400), memory=Bytes(GI), every_node=True, least=0, most=0),
    Workload(name="gateway", cpu=MilliCpu(1900), memory=Bytes(GI), most=4),
    Workload(name="prometheus", cpu=MilliCpu(100), memory=Bytes(GI), volume=Bytes(GI)),
)


def system(low: int, high: int, zones: str = "ab") -> SystemPool:
    given = {"name": "system", "instance_types": ["m7i.xlarge"], "zones": [f"eu-west-1{zone}" for zone in zones]}
    return SystemPool.model_validate({**given, "release": "1.36.2-20260714", "size": {"min": low, "max": high}})


EXPLAINED: dict[str, tuple[Callable[[], tuple[Line, ...]], str]] = {
    "what a detector needs of a GPU": (
        lambda: fit(model(DEFECTS)).lines,
        """
  weights of defects       165Mi  82.4Mi in defects/1/ x 2
  activations of defects  2.34Gi  1200Mi at batch 16 x 2
  CUDA context             512Mi
  backend libraries        256Mi  onnxruntime
  TensorRT workspace         1Gi  while compiling
  needed                  4.25Gi
  available                7.6Gi  8Gi less 5% headroom
""",
    ),
    "a language model quantised on load": (
        lambda: fit(model(CHAT)).lines,
        """
  weights                   8.46Gi  15Gi of safetensors, halved but for 1.96Gi of embeddings
  activations                768Mi  8192 tokens x 12 x 4096 x 2 bytes
  logits                    62.6Mi  128 sequences x 128256 x 4 bytes
  CUDA context               512Mi
  CUDA graphs                  1Gi
  KV cache, one request        1Gi  2 x 8 heads x 128 x 1 byte x 32 layers x 16384 tokens
  KV cache, empty block        1Mi  the engine keeps one
  or, while loading         15.5Gi  15Gi before they are quantised, and the context
  needed                    15.5Gi
  available                   72Gi  72Gi, leaving 5% of the device
  longest requests at once      61  of 16384 tokens; at most 128 of any length
  tokens each, all at once    7824  when 128 run; beyond, vLLM preempts
""",
    ),
    "a language model on two GPUs with a draft": (
        lambda: fit(model(CHAT, **SPECULATING)).lines,
        """
  weights                   7.48Gi  15Gi of safetensors / 2 GPUs
  activations                480Mi  8192 tokens x (3 + 9 / 2 GPUs) x 4096 x 2 bytes
  logits                    62.6Mi  128 sequences x 128256 x 4 bytes
  CUDA context               512Mi
  CUDA graphs                  1Gi
  draft model                512Mi  1Gi in draft/ / 2 GPUs
  collectives                512Mi  tensor parallelism
  KV cache, one request        1Gi  2 x 4 heads x 128 x 2 byte x 32 layers x 16384 tokens
  KV cache, empty block        1Mi  the engine keeps one
  needed                    11.5Gi
  available                   72Gi  72Gi, leaving 5% of the device
  longest requests at once      61  of 16384 tokens; at most 128 of any length
  tokens each, all at once    7856  when 128 run; beyond, vLLM preempts
""",
    ),
    "what joins the GPUs of a language model": (
        lambda: link_lines(model(CHAT, **UNJOINED)),
        """
  link                        PCIe  32 GB/s from each GPU at most
  sent in the largest step  3.05Gi  65 sums x 4096 tokens x 4096 x 2 bytes x 2 x 3/4
  which takes at least       102ms  added to the time of a prompt of that length
  sent for each token        780Ki  while answers are written
  in /dev/shm               2.12Gi  160Mi + 24Mi + 4 x 240Mi of vLLM's rings, and 1Gi of NCCL
""",
    ),
    "prefill on one GPU and decode on two": (
        lambda: _together(pool(H100_POOL)),
        """
  prompts at most             18/s  3 replicas x 6/s
  replicas that read them        2  x 3000 tokens / 30000/s; at most 2
  prefill to decode          2 : 3  replicas, each role at its maximum
  KV cache of a prompt       188Mi  2 x 4 heads x 128 x 1 byte x 32 layers x 3000 tokens x 2 GPUs, in whole blocks
  sent by a prefill node   3.3Gi/s  2 replicas on p5.48xlarge, whose pods have 11.6Gi/s
  read by a decode node    3.3Gi/s  3 replicas on p5.48xlarge, whose pods have 11.6Gi/s
  which takes at least       158ms  2 x 5 Gbit/s, a flow for each pair of GPUs; part of the time to first token
""",
    ),
    "a language model on two nodes of eight GPUs": (
        lambda: fit(model(CHAT, **SPANNING)).lines,
        """
  weights                   1020Mi  15Gi of safetensors, 16 of 32 layers / 8 GPUs
  activations                264Mi  8192 tokens x (3 + 9 / 8 GPUs) x 4096 x 2 bytes
  logits                    62.6Mi  128 sequences x 128256 x 4 bytes
  CUDA context               512Mi
  CUDA graphs                  1Gi
  collectives                512Mi  tensor parallelism
  from the node before       128Mi  hidden states and residual of a step
  KV cache, one request      128Mi  2 x 1 heads x 128 x 2 byte x 16 layers x 16384 tokens
  KV cache, empty block      128Ki  the engine keeps one
  needed                    3.57Gi
  available                   72Gi  72Gi, leaving 5% of the device
  longest requests at once     548  of 16384 tokens; at most 128 of any length
  tokens each, all at once   16384  when 128 run; beyond, vLLM preempts
""",
    ),
    "what the nodes of a replica tell one another": (
        lambda: _spanning(pool(H100_POOL)),
        """
  GPUs of a replica                  24  3 nodes x 8; tensor parallel 8, pipeline parallel 3
  layers of a node                   11  of 32, on the node that has most
  handed on in the largest step   128Mi  8192 tokens x 4096 x 2 x 2 bytes, by TCP
  which takes at least           21.5ms  2 times at 11.6Gi/s of p5.48xlarge; part of the time to first token
  handed on for each token         16Ki  while answers are written
""",
    ),
    "the cost of a replica on two nodes": (
        lambda: cost(model(CHAT, **SPANNING), pool(H100_POOL)).lines,
        """
  a replica, an hour      110 USD  8 of 8 GPUs of p5.48xlarge at 55.04 USD x 2 nodes
  1,000 requests         5.10 USD  at 6/s a replica
  1,000,000 tokens      12.74 USD  at 2400/s a replica
  a month, at least    80,358 USD  1 replica x 730 h
  a month, at most    241,075 USD  3 replicas x 730 h
  list prices of       2026-01-19  us-east-1, on demand
""",
    ),
    "a container": (
        lambda: fit(model(CUSTOM)).lines,
        """
  weights         95.4Mi  the whole artifact
  working memory     2Gi  declared, at the largest request
  CUDA context     512Mi
  needed          2.59Gi
  available        5.7Gi  6Gi less 5% headroom
""",
    ),
    "RAM of a detector": (
        lambda: fit_ram(model(DEFECTS, envelope__gpu__count=2)).lines,
        """
  server processes              1.5Gi  1536Mi x 1
  largest file, while loading  82.4Mi
  shared memory                   1Gi
  requests in flight            768Mi  48 x 8Mi x 2
  needed                       3.33Gi
  available                      10Gi
""",
    ),
    "RAM of a language model on two GPUs": (
        lambda: fit_ram(model(CHAT, envelope__gpu__count=2)).lines,
        """
  server processes                3Gi  1536Mi x 2
  largest file, while loading  4.66Gi
  shared memory                   8Gi
  requests in flight             64Mi  64 x 512Ki x 2
  needed                       15.7Gi
  available                      96Gi
""",
    ),
    "a start on a new node": (
        lambda: startup(model(DEFECTS)).lines,
        """
  node                   2m  new instance
  GPUs ready             1m  driver, device plugin, partitioning
  image               32.7s  9.57Gi at 300Mi/s
  artifact            100ms  85.9Mi at 1000Mi/s
  checksums           100ms  85.9Mi at 500Mi/s x 3 files
  engine start         2.5m  measured, from the contract
  warmup               4.5s  100 rounds of 2 requests x 45ms
  pod start to ready  3.12m  budget 12m
  with a new node     6.12m
""",
    ),
    "a start on a warm node with a disk": (
        lambda: startup(model(CHAT), pool(L4_POOL, warm={"size": 1}, model_cache="disk")).lines,
        """
  node                   1m  from the warm pool
  GPUs ready             1m  driver, device plugin, partitioning
  image               27.4s  8.01Gi at 300Mi/s
  artifact            25.6s  15Gi at 600Mi/s
  checksums            7.7s  15Gi at 500Mi/s x 4 files
  engine start           3m  measured, from the contract
  warmup                20s  1 round of 32 requests x 20s
  pod start to ready  4.34m  budget 20m
  with a new node     6.34m
""",
    ),
    "a rollout in warm places": (
        lambda: surge(model(DEFECTS, envelope__gpu__count=2, scaling__warm_replicas=1), 3).lines,
        """
  spare devices               3  nvidia.com/gpu
  warm places                 2  1 x 2
  both versions in full      12  6 replicas x 2
  first arms                  4  new version and baseline
  decision               borrow  4 devices more while it runs
""",
    ),
    "a rollout of one arm": (
        lambda: surge(model(DEFECTS, rollout__baseline_arm=False), 9).lines,
        """
  spare devices              9  nvidia.com/gpu
  warm places                1  1 x 1
  both versions in full      6  6 replicas x 1
  first arms                 1  new version
  decision               surge  6 devices more while it runs
""",
    ),
    "a node": (
        lambda: node_room(model(DEFECTS), pool()).lines,
        """
  by GPU  1  1 x nvidia.com/gpu / 1
  by CPU  1  3410m of 4 cores / 3100m with sidecars
  by RAM  1  13.1Gi of 16Gi / 10.1Gi with sidecars
""",
    ),
    "a large node": (
        lambda: node_room(model(CHAT), pool(H100_POOL)).lines,
        """
  by GPU   8  8 x nvidia.com/gpu / 1
  by CPU  15  190940m of 192 cores / 12150m with sidecars
  by RAM  20  1.94Ti of 2Ti / 96.2Gi with sidecars
""",
    ),
    "a node that has no such GPU": (
        lambda: node_room(model(EMBEDDINGS), pool()).lines,
        """
  by GPU  0  0 x nvidia.com/mig-1g.10gb / 1
  by CPU  0  3410m of 4 cores / 4100m with sidecars
  by RAM  0  13.1Gi of 16Gi / 16.1Gi with sidecars
""",
    ),
    "the cost of a detector with batch workers": (
        lambda: cost(model(DEFECTS, batch=BATCH), pool()).lines,
        """
  a replica, an hour  0.8048 USD  1 of 1 GPUs of g6.xlarge at 0.8048 USD
  1,000 requests      0.0006 USD  at 380/s a replica
  a month, at least    1,763 USD  3 replicas x 730 h
  a month, at most     4,583 USD  7 replicas x 730 h + 2 spot workers
  list prices of      2026-01-19  us-east-1, on demand
""",
    ),
    "the cost of a language model": (
        lambda: cost(model(CHAT), pool(H100_POOL)).lines,
        """
  a replica, an hour    6.88 USD  1 of 8 GPUs of p5.48xlarge at 55.04 USD
  1,000 requests      0.3185 USD  at 6/s a replica
  1,000,000 tokens    0.7963 USD  at 2400/s a replica
  a month, at least    5,022 USD  1 replica x 730 h
  a month, at most    15,067 USD  3 replicas x 730 h
  list prices of      2026-01-19  us-east-1, on demand
""",
    ),
    "the cost of a slice": (
        lambda: cost(model(EMBEDDINGS), pool(MIG_POOL)).lines,
        """
  a replica, an hour  0.4901 USD  1 of 8 GPUs of p4de.24xlarge at 27.44705 USD x 1g.10gb
  1,000 requests      0.0008 USD  at 170/s a replica
  a month, at least      358 USD  1 replica x 730 h
  a month, at most     1,073 USD  3 replicas x 730 h
  list prices of      2026-01-19  us-east-1, on demand
""",
    ),
    "the cost of a share": (
        lambda: cost(model(DEFECTS, **SHARED), pool(L4_POOL, sharing={"mode": "mps", "replicas": 4})).lines,
        """
  a replica, an hour  0.2012 USD  1 of 1 GPUs of g6.xlarge at 0.8048 USD / 4 shares
  1,000 requests      0.0001 USD  at 380/s a replica
  a month, at least      441 USD  3 replicas x 730 h
  a month, at most     1,028 USD  7 replicas x 730 h
  list prices of      2026-01-19  us-east-1, on demand
""",
    ),
    "a system pool that is too small": (
        lambda: system_room(PODS, system(1, 2)).lines,
        """
  CPU needed           2.00 to 7.70  fewest to most replicas, DaemonSets aside
  RAM needed             2Gi to 5Gi
  CPU of a node                3.52  m7i.xlarge, less kubelet and DaemonSets
  RAM of a node                13Gi
  CPU left at most             0.00  of 7.04 on 2 nodes
  RAM left at most             21Gi  of 26Gi
  nodes needed               1 to 4  the pool has 1 to 2
  one of 1 nodes lost          full  at the fewest: no room for gateway; prometheus wait for its successor
  one of 2 nodes lost          full  at the most: no room for gateway; prometheus wait for its successor
  one zone lost                full  at the most: no place for gateway
""",
    ),
    "a system pool that loses a zone": (
        lambda: system_room(PODS, system(2, 5)).lines,
        """
  CPU needed           2.00 to 7.70  fewest to most replicas, DaemonSets aside
  RAM needed             2Gi to 5Gi
  CPU of a node                3.52  m7i.xlarge, less kubelet and DaemonSets
  RAM of a node                13Gi
  CPU left at most             9.90  of 17.60 on 5 nodes
  RAM left at most             60Gi  of 65Gi
  nodes needed               1 to 4  the pool has 2 to 5
  one of 2 nodes lost          fits  at the fewest: prometheus wait for its successor
  one of 5 nodes lost          fits  at the most: everything returns at once
  one zone lost                full  at the most: no place for gateway
""",
    ),
}


def _spanning(nodes: Pool) -> tuple[Line, ...]:
    found = spanning(model(CHAT, **{**SPANNING, "pipeline": {"nodes": 3}}), nodes)
    assert found
    return found.lines


def _together(nodes: Pool) -> tuple[Line, ...]:
    found = apart(model(CHAT, prefill=PREFILL, envelope__gpu__count=2), nodes, nodes)
    assert found
    return found.lines


@pytest.mark.parametrize(("lines", "text"), EXPLAINED.values(), ids=EXPLAINED)
def test_every_figure_says_how_it_comes_about(lines: Callable[[], tuple[Line, ...]], text: str) -> None:
    assert written(lines()) == text.strip("\n")


def test_each_use_of_a_quota_says_who_uses_it() -> None:
    uses = quota_use(tenant(), [model(DEFECTS, batch=BATCH), model(EMBEDDINGS)])
    assert {"/".join(use.path): (use.need, [(line.what, line.figure, line.why) for line in use.lines]) for use in uses} == {
        "quota/cpu": (
            "40700m",
            [
                ("defects", "28400m", "3100m x (6 replicas + 1 warm + 2 batch workers) + 500m for what feeds them"),
                ("embeddings", "12300m", "4100m x 3 replicas"),
            ],
        ),
        "quota/gpu_memory": (
            "231Gi",
            [
                ("defects", "207306Mi", "22.5Gi x (6 replicas + 1 warm + 2 batch workers)"),
                ("embeddings", "29184Mi", "9.5Gi x 3 replicas"),
            ],
        ),
        "quota/gpus/l4": ("9", [("defects", "9", "1 x (6 replicas + 1 warm + 2 batch workers)")]),
        "quota/memory": (
            "140Gi",
            [
                ("defects", "93824Mi", "10.1Gi x (6 replicas + 1 warm + 2 batch workers) + 512Mi for what feeds them"),
                ("embeddings", "49536Mi", "16.1Gi x 3 replicas"),
            ],
        ),
        "quota/mig/1g.10gb": ("3", [("embeddings", "3", "1 x 3 replicas")]),
        "quota/shared": ("0", []),
    }


def test_a_replica_of_two_gpus_takes_them_both_or_none_of_a_quota() -> None:
    pair = model(CHAT, envelope__gpu__count=2, scaling__max_replicas=1)
    owner = {"quota/cpu": "1000", "quota/memory": "9Ti", "quota/gpu_memory": "9Ti"}
    assert [spare_devices_by_quota(tenant(ASSIST, **owner, **{"quota/gpus/h100": n}), [pair], pair) for n in (3, 4, 7)] == [0, 2, 4]


def test_a_large_node_keeps_memory_for_more_pods() -> None:
    assert allocatable_memory(INSTANCE_TYPES["m7i.xlarge"]) == 16 * GI * 97 // 100 - (255 + 11 * 110 + 100) * MI
    assert allocatable_memory(INSTANCE_TYPES["p5.48xlarge"]) == 2048 * GI * 97 // 100 - (255 + 11 * 250 + 100) * MI


def test_pods_spread_over_zones_return_to_the_zones_that_are_left() -> None:
    spread = Workload(name="gateway", cpu=MilliCpu(100), memory=Bytes(GI), least=3, most=3, by_zone=True)
    room = system_room([spread], system(3, 3, "abc"))
    assert (str(room.loss_most), room.waiting_after_zone, room.problems) == ("everything returns at once", (), ())


def test_a_pool_that_is_too_small_is_told_with_both_ways_out() -> None:
    def told(low: int, high: int) -> list[dict[str, Any]]:
        found = system_room(PODS, system(low, high)).problems
        return [{name: getattr(each, name) for name in ("rule", "path", "value", "fact", "consequence", "remedy")} for each in found]

    assert told(1, 2) == [
        {
            "rule": "system-pool-holds-the-platform",
            "path": ("size", "max"),
            "value": 2,
            "fact": "the platform's pods request 7.70 CPU and 5Gi of RAM at their most; 2 nodes of m7i.xlarge have 7.04 and 26Gi for them, "
            "and gateway find no place",
            "consequence": "Under load some of them would wait for ever, gateways among them",
            "remedy": "Write max: 4 or instance_types: [m7i.2xlarge]",
        }
    ]
    assert told(2, 4) == [
        {
            "rule": "system-pool-survives-a-node",
            "path": ("size", "max"),
            "value": 4,
            "fact": "with one of 4 nodes lost and pods at their most, gateway find no place",
            "consequence": "They would be down until the node is replaced, when users need them most",
            "remedy": "Write max: 5",
        }
    ]
    giant = Workload(name="giant", cpu=MilliCpu(50_000_000), memory=Bytes(GI))
    room = system_room([giant], system(1, 2))
    assert [(each.path, each.value, each.consequence) for each in room.problems] == [
        (("size", "min"), 1, "The autoscaler comes last, so no node is added: releases wait for their pods until they fail"),
        (("size", "max"), 2, "Under load some of them would wait for ever, gateways among them"),
    ]
    assert {each.remedy for each in room.problems} == {"Spread the platform over larger nodes than the catalogue has, or make it smaller"}
    assert [line.figure for line in room.lines if line.what == "nodes needed"] == ["more than 100"]
