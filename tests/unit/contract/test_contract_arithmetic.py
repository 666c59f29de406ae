"""The sums behind a contract, against numbers worked out by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.adapters import dense_weights, slot_bytes
from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.fit import fit, fit_ram
from headway.contract.arithmetic.kv_cache import KvCache
from headway.contract.arithmetic.node import allocatable_cpu, node_room
from headway.contract.arithmetic.quota import quota_use, replicas_charged, spare_devices_by_quota, token_use
from headway.contract.arithmetic.startup import budget_burn, startup
from headway.contract.arithmetic.surge import Room, pool_for, spare_devices, spare_for, surge
from headway.contract.arithmetic.tensor_parallel import kept_twice, largest_step, link_lines, shared_memory_of
from headway.contract.explanation import Line, written
from headway.contract.model import Model
from headway.contract.runtime import Architecture, Vllm
from headway.contract.units import Bytes, Duration, Money
from tests.contract_samples import ADAPTED, ASSIST, CHAT, CUSTOM, DEFECTS, EMBEDDINGS, H100_POOL, L4_POOL, MIG_POOL, model, pool, tenant

MI, GI = 2**20, 2**30
BATCH = {
    "max_replicas": 2,
    "messages_per_replica": 10,
    "deadline": "1h",
    "message_timeout": "1m",
    "store": "s3://example-batch/vision/defects/",
}


WINDOW = {"runtime/architecture/sliding_window": {"tokens": 512, "layers": 24}, "batching/max_batched_tokens": 2_048}


def _engine() -> tuple[Model, Vllm]:
    chat = model(CHAT)
    assert isinstance(chat.runtime, Vllm)
    return chat, chat.runtime


def line(lines: tuple[Line, ...], what: str) -> str:
    return next(each.figure for each in lines if each.what == what)


# GPU memory


def test_triton_needs_weights_and_activations_of_every_instance_and_its_runtime() -> None:
    weights = 2 * 86_412_288
    assert fit(model(DEFECTS)).needed == weights + 2 * 1200 * MI + 512 * MI + 256 * MI + 1024 * MI


def test_tensorrt_instances_share_one_engine() -> None:
    plan = model(
        DEFECTS,
        **{
            "runtime/models/0/backend": "tensorrt",
            "artifact/files/0/path": "defects/1/model.plan",
            "optimisation": {},
        },
    )
    assert line(fit(plan).lines, "weights of defects") == Bytes(86_412_288).brief


def test_headroom_is_kept_free_of_the_envelope() -> None:
    assert fit(model(DEFECTS)).available == 8 * GI - 8 * GI * 5 // 100


def test_a_model_that_needs_more_than_its_envelope_does_not_fit() -> None:
    assert fit(model(DEFECTS, envelope__gpu__memory="4500Mi")).fits is False, "4,357 MiB needed, 4,275 MiB after headroom"
    assert fit(model(DEFECTS, envelope__gpu__memory="4700Mi")).fits is True


def test_a_token_needs_two_cache_vectors_per_layer_and_head() -> None:
    longest = fit(model(CHAT))
    assert line(longest.lines, "KV cache, one request") == "1Gi", "2 x 32 layers x 8 heads x 128 x 1 byte x 16,384 tokens"
    sixteen_bit = fit(model(CHAT, optimisation__kv_cache="auto"))
    assert line(sixteen_bit.lines, "KV cache, one request") == "2Gi"


def test_a_windowed_layer_keeps_its_window_and_two_steps_of_tokens() -> None:
    windowed = fit(model(CHAT, **WINDOW))
    kept = -(-(511 + 2 * 2_048) // 16) + 1
    assert line(windowed.lines, "KV cache, one request") == Bytes(2 * 8 * 128 * 16 * (8 * 1_024 + 3 * 8 * kept)).brief
    assert "(8 layers x 16384 tokens + 24 layers x 4607 tokens)" in written(windowed.lines)
    assert (windowed.sequences or 0) > (fit(model(CHAT)).sequences or 0)


def test_layers_that_share_blocks_are_padded_to_groups_of_one_size() -> None:
    of_62 = replace(KvCache.of(*_engine()), full=10, windowed=52, kept=4_607)
    assert (of_62.group, of_62.request(16)) == (10, of_62.block_bytes * (1 + 6 * 2)), "52 layers take six groups of ten"
    assert replace(of_62, full=20, windowed=24).group == 24, "where both kinds are about as many, the rarer one is padded"


def test_a_latent_is_one_vector_for_all_heads_and_lies_on_every_gpu_whole() -> None:
    latent = {"runtime/architecture/latent": 576, "envelope/gpu/count": 2}
    assert line(fit(model(CHAT, **latent)).lines, "KV cache, one request") == Bytes(576 * 32 * 16_384).brief


def test_as_many_tokens_as_have_room_are_said_for_all_requests_at_once() -> None:
    kv = KvCache.of(*_engine())
    cache = 101 * kv.block_bytes
    assert kv.tokens_each(cache, 10, 16_384) == 10 * 16
    assert kv.tokens_each(cache, 101, 16_384) == 0
    assert kv.tokens_each(cache, 1, 1_000) == 1_000


def test_windowed_layers_let_answers_grow_that_have_their_window() -> None:
    kv = replace(KvCache.of(*_engine()), full=0, windowed=32, kept=4_607, decoding=513)
    cache = 1 + 10 * (33 + 1)
    assert kv.tokens_each(cache * kv.block_bytes, 10, 16_384) == 16_384
    assert kv.tokens_each((cache - 1) * kv.block_bytes, 10, 16_384) == 33 * 16, "the block in which a window begins is the 34th"


def test_room_for_long_requests_shrinks_with_their_length() -> None:
    short, long = fit(model(CHAT)), fit(model(CHAT, envelope__largest_request__context_tokens=131_072))
    assert short.sequences is not None
    assert long.sequences is not None
    assert short.sequences // 8 == long.sequences


def test_tensor_parallelism_divides_weights_and_heads_over_gpus() -> None:
    one, two = fit(model(CHAT)), fit(model(CHAT, envelope__gpu__count=2))
    assert line(two.lines, "KV cache, one request") == "512Mi"
    assert two.needed < one.needed


@pytest.mark.parametrize(("gpus", "collectives"), [(1, 0), (2, 512 * MI)])
def test_a_language_model_needs_weights_work_and_one_longest_request(gpus: int, collectives: int) -> None:
    plain = {"optimisation": {"quantisation": "none"}, "envelope/gpu/count": gpus}
    weights = 4_976_698_672 + 4_999_802_720 + 4_915_916_176 + 1_168_138_808
    widths = {1: 12, 2: 3 + 9 / 2}
    activations, logits = int(8_192 * widths[gpus] * 4_096 * 2), 128 * 128_256 * 4
    longest = 2 * 32 * 8 * 128 * 2 * 16_384
    fixed = 512 * MI + 1_024 * MI + collectives
    empty = longest // 1_024
    assert fit(model(CHAT, **plain)).needed == weights // gpus + activations + logits + fixed + (longest + empty) // gpus


@pytest.mark.parametrize(("gpus", "kv_heads", "of_a_rank"), [(2, 2, 3_281_408), (4, 2, 1_708_544)])
def test_a_rank_holds_its_part_and_kv_heads_that_are_too_few_twice(gpus: int, kv_heads: int, of_a_rank: int) -> None:
    shape = {"layers": 4, "heads": 8, "kv_heads": kv_heads, "head_dimension": 32, "hidden": 256, "vocabulary": 2048}
    reckoned = 6_562_384 // gpus + kept_twice(Architecture.model_validate(shape), gpus)
    assert abs(reckoned / of_a_rank - 1) < 0.002, "as vLLM 0.32 for CPUs said of each rank of this Llama"


def test_each_gpu_keeps_all_of_a_latent_and_of_what_projects_to_it() -> None:
    gpus = {"envelope/gpu/count": 8, "optimisation": {}}
    latent = fit(model(CHAT, **gpus, **{"runtime/architecture/latent": 576}))
    assert line(latent.lines, "weights, not divided") == Bytes(32 * 4_096 * 576 * 2 * 7 // 8).brief
    assert "weights, not divided" not in [each.what for each in fit(model(CHAT, **gpus)).lines], "eight KV heads on eight GPUs"


@pytest.mark.parametrize(("gpus", "rings"), [(2, 664 * MI), (4, 1_144 * MI)])
def test_gpus_of_a_replica_need_the_rings_that_vllm_was_seen_to_map(gpus: int, rings: int) -> None:
    assert shared_memory_of(gpus) == rings + GI
    assert shared_memory_of(1) == 0


def test_a_slot_of_an_adapter_is_what_vllm_was_seen_to_reserve() -> None:
    small = {"layers": 4, "heads": 8, "kv_heads": 2, "head_dimension": 32, "hidden": 256, "vocabulary": 2048, "intermediate": 512}
    assert slot_bytes(Architecture.model_validate(small), 16, 1) * 2 == 1_310_720, "as vLLM 0.32 for CPUs reserved for two of rank 16"


def test_every_adapter_takes_gpu_memory_by_the_largest_rank() -> None:
    plain, adapted = fit(model(CHAT)), fit(model(CHAT, **ADAPTED))
    layer = (4096 + 4096) + 2 * (4096 + 1024) + (4096 + 4096) + 2 * (4096 + 14336) + (14336 + 4096)
    slot = 2 * 16 * (32 * layer + 2 * (4096 + 128_256))
    assert line(adapted.lines, "adapters") == Bytes(2 * slot).brief
    assert plain.needed == adapted.needed, "loading needs more than serving"
    assert line(adapted.lines, "tokens each, all at once") < line(plain.lines, "tokens each, all at once")
    assert fit_ram(model(CHAT, **ADAPTED)).needed - fit_ram(model(CHAT)).needed == 2 * (80 * MI + 600)


def test_gpus_divide_one_half_of_an_adapter_and_keep_the_other() -> None:
    shape = model(CHAT, **ADAPTED).runtime
    assert isinstance(shape, Vllm)
    whole, part = (slot_bytes(shape.architecture, 16, gpus) for gpus in (1, 4))
    assert whole // 4 < part < whole
    assert dense_weights(shape.architecture) == pytest.approx(16_060_556_376, rel=0.001), "the files of the sample"


def test_a_sum_over_gpus_is_sent_twice_around_the_ring_in_each_layer() -> None:
    chat = model(CHAT, envelope__gpu__count=4)
    assert largest_step(chat) == (8_192, 65 * 8_192 * 4_096 * 2 * 3 // 2, Duration(14_540))
    assert [each.what for each in link_lines(chat)][:2] == ["link", "sent in the largest step"]
    assert link_lines(model(CHAT)) == link_lines(model(DEFECTS, envelope__gpu__count=2)) == ()


def test_a_draft_model_takes_its_place_beside_the_model() -> None:
    draft = {"path": "draft/model.safetensors", "sha256": "ab" * 32, "size": "1Gi"}
    speculating = {"artifact/files/9": draft, "optimisation": {"speculation": {"method": "draft", "tokens": 3, "folder": "draft/"}}}
    without = fit(model(CHAT, optimisation={}))
    assert fit(model(CHAT, **speculating)).needed == without.needed + GI


def test_a_language_model_leaves_headroom_on_the_device_not_in_its_envelope() -> None:
    device = 81_559 * MI
    assert fit(model(CHAT, envelope__gpu__memory="79Gi")).available == device - device * 5 // 100
    assert fit(model(CHAT)).available == 72 * GI


def test_weights_quantised_on_load_must_fit_before_they_shrink() -> None:
    loading = fit(model(CHAT, envelope__gpu__memory="15Gi"))
    assert loading.fits is False, "16.06 GB of 16-bit weights are on the GPU before the first one is quantised"
    assert fit(model(CHAT, envelope__gpu__memory="16Gi")).fits is True
    assert line(loading.lines, "or, while loading") == "15.5Gi"
    assert "or, while loading" not in [each.what for each in fit(model(CHAT, optimisation={})).lines]


def test_a_container_needs_its_artifact_and_what_it_declares() -> None:
    assert fit(model(CUSTOM)).needed == 100_000_000 + 2 * GI + 512 * MI


def test_ram_holds_the_largest_file_and_the_requests_in_flight() -> None:
    assert fit_ram(model(DEFECTS)).needed == 1536 * MI + 86_412_288 + GI + 48 * 8 * MI * 2
    assert fit_ram(model(EMBEDDINGS, envelope__memory="8Gi")).fits is False


@given(tokens=st.integers(2_049, 1_000_000), sequences=st.integers(1, 4096))
def test_more_work_never_needs_less_memory(tokens: int, sequences: int) -> None:
    changes = {"batching__max_sequences": sequences, "batching__max_batched_tokens": 8192, "optimisation__quantisation": "fp8"}
    less = fit(model(CHAT, envelope__largest_request__context_tokens=tokens, **changes))
    more = fit(model(CHAT, envelope__largest_request__context_tokens=tokens + 1, **changes))
    assert less.needed <= more.needed
    assert (less.sequences or 0) >= (more.sequences or 0)


# Start-up


def test_a_start_adds_up_step_by_step() -> None:
    start = startup(model(CHAT))
    assert start.node == Duration.parse("3m")
    assert start.serve == Duration.parse("200s"), "180 s of engine start and one round of 32 requests within 20 s"
    image, artifact, checksums = Duration.parse("27400ms"), Duration.parse("15400ms"), Duration.parse("7700ms")
    assert start.fetch == image + artifact + checksums
    assert start.pod == start.fetch + start.serve
    assert start.cold == start.node + start.pod


def test_a_slow_disk_without_nvme_pulls_the_image_plainly() -> None:
    slow = pool(L4_POOL, model_cache="disk", disk={"throughput": "125Mi/s"})
    assert startup(model(DEFECTS), slow).fetch > startup(model(DEFECTS), pool()).fetch * 10


def test_a_warm_pool_saves_part_of_the_node() -> None:
    assert startup(model(DEFECTS), pool(L4_POOL, warm={"size": 1}, model_cache="disk")).node == Duration.parse("2m")


def test_warmup_goes_in_rounds_of_what_a_replica_computes_at_once() -> None:
    assert line(startup(model(DEFECTS)).lines, "warmup") == "4.5s", "200 requests, two instances, 45 ms"


def test_an_error_budget_is_a_share_of_the_window() -> None:
    burn = budget_burn(model(DEFECTS), startup(model(DEFECTS)))
    assert burn is not None
    assert burn.budget == Duration.parse("1209600ms"), "0.05 % of 28 days"
    assert burn.survivable
    strict = model(DEFECTS, **{"slo/0/objective": "99.99%"})
    tight = budget_burn(strict, startup(strict))
    assert tight is not None
    assert not tight.survivable, "four minutes of budget, six of cold start"


def test_without_an_objective_there_is_no_error_budget() -> None:
    promised = model(DEFECTS, slo=[{"signal": "latency", "quantile": "99%", "threshold": "50ms"}])
    assert budget_burn(promised, startup(promised)) is None


# Quota


def test_quota_is_charged_at_the_maximum_with_warm_places_and_batch_workers() -> None:
    assert replicas_charged(model(DEFECTS)) == 7
    assert replicas_charged(model(DEFECTS, batch=BATCH)) == 9
    uses = {use.path: use for use in quota_use(tenant(), [model(DEFECTS), model(EMBEDDINGS)])}
    assert uses["quota", "gpus", "l4"].used == 7
    assert uses["quota", "mig", "1g.10gb"].used == 3
    assert uses["quota", "gpu_memory"].used == 7 * 23_034 * MI + 3 * 9_728 * MI
    assert uses["quota", "cpu"].used == 7 * 3_100 + 3 * 4_100, "sidecars are pods' CPU too"


def test_what_one_replica_takes_of_a_quota_is_said_in_three_figures() -> None:
    uses = {use.path: use for use in quota_use(tenant(), [model(CHAT)])}
    assert [each.why for each in uses["quota", "gpu_memory"].lines] == ["79.6Gi x 3 replicas"]


def test_a_gpu_that_the_quota_does_not_name_is_not_granted() -> None:
    uses = {use.path: use for use in quota_use(tenant(), [model(CHAT)])}
    assert uses["quota", "gpus", "h100"].limit == 0
    assert not uses["quota", "gpus", "h100"].within


MPS = {"envelope/gpu/share": "mps", "envelope/shared_memory": "0B", "placement/isolation": "shared"}


def test_shares_of_a_gpu_are_counted_apart_from_whole_ones() -> None:
    shared = model(DEFECTS, **MPS)
    uses = {use.path: use for use in quota_use(tenant(), [shared])}
    assert uses["quota", "shared"].used == 7
    assert uses["quota", "gpus", "l4"].used == 0


def test_tokens_add_up_over_replicas() -> None:
    assert str(token_use([model(CHAT), model(DEFECTS)])) == "7200/s"


def test_a_rollout_may_take_what_the_scarcest_resource_of_the_quota_leaves() -> None:
    chat, owner = model(CHAT), tenant(ASSIST)
    assert spare_devices_by_quota(owner, [chat], chat) == 1, "4 H100 granted, 3 charged"
    assert spare_devices_by_quota(tenant(ASSIST, quota__cpu="38"), [chat], chat) == 0, "CPU for 37.5 of 38 cores is taken"


# Room for a rollout


@pytest.mark.parametrize(
    ("spare", "warm", "replicas", "room", "extra"),
    [
        (6, 0, 6, Room.SURGE, 6),
        (5, 0, 6, Room.BORROW, 2),
        (2, 0, 6, Room.BORROW, 2),
        (1, 0, 6, Room.NO_SURGE, 0),
        (1, 1, 6, Room.BORROW, 2),
        (0, 0, 2, Room.NO_SURGE, 0),
        (0, 0, 1, Room.NONE, 0),
        (1, 0, 1, Room.SURGE, 1),
    ],
)
def test_a_rollout_takes_the_most_generous_way_that_the_spare_gpus_allow(
    spare: int, warm: int, replicas: int, room: Room, extra: int
) -> None:
    decision = surge(model(DEFECTS, scaling__warm_replicas=warm), spare, replicas)
    assert (decision.room, decision.extra) == (room, extra)


@given(spare=st.integers(0, 50), replicas=st.integers(1, 20), warm=st.integers(0, 5), count=st.sampled_from([1, 2, 4]))
def test_a_rollout_never_plans_with_a_gpu_that_does_not_exist(spare: int, replicas: int, warm: int, count: int) -> None:
    decision = surge(model(CHAT, scaling__warm_replicas=warm, envelope__gpu__count=count), spare, replicas)
    assert decision.extra <= spare + warm * count


def test_a_contract_that_requires_surge_gets_nothing_less() -> None:
    insisting = model(DEFECTS, rollout__surge="surge")
    assert surge(insisting, 5).allowed is False
    assert surge(insisting, 6).allowed is True


def test_a_contract_may_ask_for_less_than_there_is() -> None:
    modest = surge(model(DEFECTS, rollout__surge="no_surge"), 50)
    assert (modest.room, modest.extra, modest.allowed) == (Room.NO_SURGE, 0, True)


def test_spare_devices_are_what_all_models_at_their_maximum_leave() -> None:
    assert spare_devices(pool(), "nvidia.com/gpu", [model(DEFECTS)]) == 16 - 7
    assert spare_devices(pool(L4_POOL, size__max=3), "nvidia.com/gpu", [model(DEFECTS)]) == -1


def test_a_device_whose_node_has_no_cpu_or_ram_left_is_not_spare() -> None:
    four = pool(L4_POOL, instance_types=["g6.12xlarge"])
    assert spare_for(model(DEFECTS), four, [model(DEFECTS)]) == spare_devices(four, "nvidia.com/gpu", [model(DEFECTS)])
    for greedy in ({"envelope__cpu": "40"}, {"envelope__memory": "170Gi"}):
        one = model(DEFECTS, **greedy)
        assert node_room(one, four).replicas == 1
        assert spare_for(one, four, [one]) == 16 - 7, "48 cores or 192 GiB feed one replica on each of 16 nodes, whatever their 64 GPUs say"
    neighbour = model(DEFECTS, name="neighbour", envelope__cpu="40", scaling__max_replicas=15)
    assert spare_for(model(DEFECTS), four, [model(DEFECTS), neighbour]) < 64 - 7 - 16, "a neighbour's CPU is gone too"


# Pools and nodes


def test_a_model_lands_on_the_cheapest_pool_of_its_class_that_offers_its_gpu() -> None:
    dear = pool(L4_POOL, name="dear", instance_types=["g6.4xlarge"])
    throughput = pool(L4_POOL, name="cheap", workload_class="throughput")
    found = pool_for(model(DEFECTS), [dear, throughput, pool()])
    assert found is not None
    assert found.name == "l4"
    assert pool_for(model(CHAT), [pool()]) is None


def test_a_named_pool_is_taken_only_if_it_offers_the_gpu() -> None:
    named = model(DEFECTS, placement__pool="a100-mig")
    assert pool_for(named, [pool(), pool(MIG_POOL)]) is None
    assert pool_for(model(DEFECTS, placement__pool="l4"), [pool()]) is not None


def test_a_share_is_offered_only_with_enough_memory() -> None:
    mps = pool(L4_POOL, sharing={"mode": "mps", "replicas": 4})
    assert mps.share_memory == 23_034 * MI // 4
    assert mps.resources_per_node == {"nvidia.com/gpu.shared": 4}
    assert not mps.offers(model(DEFECTS, **MPS, **{"envelope/gpu/memory": "6Gi"}).envelope.gpu)
    assert mps.offers(model(DEFECTS, **MPS, **{"envelope/gpu/memory": "5Gi"}).envelope.gpu)


def test_a_mig_node_offers_its_layout_on_every_gpu() -> None:
    cut = pool(MIG_POOL, sharing={"mode": "mig", "layout": {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}})
    assert cut.resources_per_node == {"nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8}


def test_the_kubelet_keeps_part_of_every_node() -> None:
    assert allocatable_cpu(INSTANCE_TYPES["g6.xlarge"]) == 4_000 - 60 - 10 - 5 - 5


def test_a_small_node_runs_out_of_cpu_before_gpus() -> None:
    assert node_room(model(DEFECTS), pool()).replicas == 1
    greedy = node_room(model(DEFECTS, envelope__cpu="3500m"), pool())
    assert (greedy.replicas, greedy.short_of) == (0, "CPU")


def test_eight_gpus_hold_eight_replicas_of_one() -> None:
    assert node_room(model(CHAT), pool(H100_POOL)).replicas == 8


# Money


def test_a_replica_pays_for_the_part_of_a_node_that_nobody_else_can_use() -> None:
    assert cost(model(CHAT), pool(H100_POOL)).replica_hour == Money.parse("6.88 USD"), "one of eight H100 of 55.04 USD"
    seventh = cost(model(EMBEDDINGS), pool(MIG_POOL)).replica_hour
    assert seventh == Money(round(27_447_050 / 8 / 7)), "1g takes a seventh of the compute of one of eight GPUs"


def test_requests_and_tokens_are_priced_at_the_declared_capacity() -> None:
    money = cost(model(CHAT), pool(H100_POOL))
    assert money.thousand_requests == Money(round(6_880_000 / 3_600 / 6 * 1_000))
    assert money.million_tokens == Money(round(6_880_000 / 3_600 / 2_400 * 1_000_000))


def test_a_month_has_730_hours_and_warm_places_cost_too() -> None:
    money = cost(model(DEFECTS), pool())
    assert money.month_at_least == 804_800 * 730 * 3
    assert money.month_at_most == 804_800 * 730 * 7
    assert cost(model(DEFECTS, batch=BATCH), pool()).month_at_most == money.month_at_most + 804_800 * 730 * 2 * 4 // 10


def test_shares_of_a_gpu_divide_its_price() -> None:
    shared = model(DEFECTS, **MPS, **{"envelope/gpu/memory": "5Gi"})
    assert cost(shared, pool(L4_POOL, sharing={"mode": "mps", "replicas": 4})).replica_hour == 201_200


def test_every_result_explains_itself_in_aligned_lines() -> None:
    assert "2 x 8 heads x 128 x 1 byte x 32 layers x 16384 tokens" in written(fit(model(CHAT)).lines)
    assert written((Line("a", Bytes(1)), Line("long", Bytes(1024), "why"))) == "  a      1B\n  long  1Ki  why"
