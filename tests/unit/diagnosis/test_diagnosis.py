"""From what hurts to its cause, on services whose series are played."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.model_service import objectives
from headway.diagnosis.facts import Blindness, Change, ChangeKind, ServedSettings, StateKind
from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.hypothesis import Symptom
from headway.diagnosis.measure import ANSWERED
from headway.diagnosis.measures import MEASURES, PHASES, STREAMED_PHASES, query
from headway.diagnosis.observed import Observed, facts
from headway.diagnosis.reasoning import METRICS, DiagnosisVerdict, diagnoses
from tests.components.contracts import DEFECTS, SURROUNDINGS, changed
from tests.unit.diagnosis.played import AT, CALM, CALM_STREAMED, ONSET, STEP, STEPS, hand, played, release, says, wrote

CASES = {
    "more-requests": played({"requests": 180.0, "queue": 0.030}),
    "larger-requests": played({"request_size": 12_000.0, "compute": 0.040}),
    "way-longer": played({"latency": 0.080}),
    "proxy-longer": played({"at_replica": 0.070}),
    "model-slower": played({"compute": 0.060}),
    "batch-larger": played({"batch_size": 16.0, "compute": 0.050}),
    "cpu-quota-used-up": played({"throttled": 0.6, "input": 0.040}),
    "gpu-slow-and-silent": played(
        {"compute": 0.026},
        apart={
            "compute_by_pod": {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.042)},
            "hot": {"x": (0.0, 0.0), "y": (0.0, 0.0), "z": (0.0, 0.0)},
            "power_capped": {"x": (0.0, 0.0), "y": (0.0, 0.0), "z": (0.0, 0.0)},
            "clock": {"x": (1980.0, 1980.0), "y": (1980.0, 1980.0), "z": (1980.0, 1980.0)},
            "replays": {"x": (0.0, 0.0), "y": (0.0, 0.0), "z": (0.0, 0.0)},
            "throttled_by_pod": {"a": (0.0, 0.0), "b": (0.0, 0.0), "c": (0.0, 0.0)},
        },
    ),
    "gpu-hot": played(
        {"compute": 0.026},
        apart={
            "compute_by_pod": {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.042)},
            "hot": {"x": (0.01, 0.01), "y": (0.01, 0.01), "z": (0.01, 0.5)},
        },
    ),
    "replicas-full": played({"errors": 0.2, "overflow": 0.2}),
    "scaler-failing": played({"requests": 180.0, "queue": 0.030, "scaler_errors": 0.2}),
    "artifacts-late": played(states=(says(StateKind.FETCH_SLOW),)),
    "woken-from-zero": played({"latency": 2.0, "held": 6.0}),
    "replica-cold": played(
        {"compute": 0.026},
        apart={"compute_by_pod": {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.042)}},
        states=(says(StateKind.YOUNG, subject="c"),),
    ),
    "maximum-lowered": played({"queue": 0.060, "replicas": 1.0, "maximum": 1.0}),
    "memory-lowered": played(states=(says(StateKind.MEMORY_KILLED),), changes=(wrote("envelope.memory", "8Gi", "2Gi"),)),
    "cpu-lowered": played({"throttled": 0.6, "input": 0.040}, changes=(wrote("envelope.cpu", "4", "500m"),)),
    "limit-lowered": played({"limited": 0.5}, changes=(wrote("quota.requests", "1000/s", "50/s", kind=ChangeKind.CONTRACT, before=900.0),)),
    "written-in-place": played({"compute": 0.060}, changes=(wrote("spec.containers.server.image", "a", "b", kind=ChangeKind.PLATFORM),)),
    "at-maximum-replicas": played({"requests": 180.0, "queue": 0.030, "of_maximum": 1.0}),
    "gpu-xid": played(
        {"errors": 0.3, "unreached": 0.3}, apart={"xid": {"x": (0.0, 0.0), "y": (0.0, 2.0)}}, states=(says(StateKind.ENDED),)
    ),
    "gpu-memory-broken": played({"errors": 0.3, "failures": 0.3}, apart={"ecc": {"x": (0.0, 0.0), "y": (0.0, 0.05)}}),
    "model-fails": played({"errors": 0.2, "failures": 0.2}),
    "over-the-rate": played({"limited": 0.5}),
    "invalid-tokens": played({"unproven": 1.0, "requests": 99.0}),
    "callers-not-allowed": played({"forbidden": 0.3}),
    "server-killed": played({"errors": 0.1, "unreached": 0.1}, states=(says(StateKind.ENDED),)),
    "out-of-memory": played({"errors": 0.1, "unreached": 0.1}, states=(says(StateKind.MEMORY_KILLED),)),
    "server-hangs": played({"errors": 0.9, "unreached": 0.9}, states=(says(StateKind.PROBE_KILLED),)),
    "load-failure": played(states=(says(StateKind.LOAD_FAILED),)),
    "model-process-dead": played({"errors": 0.1, "unreached": 0.1}, states=(says(StateKind.PROCESS_DIED),)),
    "probe-fails": played({"errors": 0.3, "unreached": 0.3}, states=(says(StateKind.PROBE_FAILING),)),
    "quota-full": played(states=(says(StateKind.QUOTA_FULL),)),
    "quota-lowered": played(states=(says(StateKind.QUOTA_FULL),), changes=(hand(ChangeKind.QUOTA, 30.0),)),
    "image-missing": played(states=(says(StateKind.IMAGE_MISSING),)),
    "written-by-hand": played(states=(says(StateKind.IMAGE_MISSING),), changes=(hand(ChangeKind.DEPLOYMENT, 5.0),)),
    "artifacts-missing": played(states=(says(StateKind.ARTIFACTS_MISSING),)),
    "gpus-taken": played(states=(says(StateKind.GPUS_TAKEN),)),
    "cordoned-by-hand": played(states=(says(StateKind.CORDONED),), changes=(hand(ChangeKind.NODE, 60.0),)),
    "node-in-quarantine": played(states=(says(StateKind.NODE_SET_APART, subject="l4-a-0"),)),
    "release-held": played(states=(says(StateKind.HELD, subject="r0123456789"),)),
    "new-version": played({"compute": 0.060}, changes=(release(60.0),)),
}


@pytest.mark.parametrize("cause", CASES)
def test_a_fault_is_found_as_the_one_cause_of_what_hurts(cause: str) -> None:
    (found,) = diagnoses(CASES[cause])
    assert (found.verdict, found.cause) == (DiagnosisVerdict.CAUSE, cause), found.links


@pytest.mark.parametrize("seed", range(20))
def test_of_a_service_that_only_varies_nothing_is_wrong(seed: int) -> None:
    (found,) = diagnoses(played(seed=seed, noise=0.1))
    assert found.verdict is DiagnosisVerdict.NOTHING


@pytest.mark.parametrize("cause", ["more-requests", "larger-requests", "way-longer", "over-the-rate", "quota-full", "cpu-quota-used-up"])
def test_a_release_that_happens_at_the_same_time_is_not_blamed(cause: str) -> None:
    calm = CASES[cause]
    found = diagnoses(Observed(**{**calm.__dict__, "changes": (release(30.0),)}))
    assert [each.cause for each in found] == [cause]


def test_a_version_that_cannot_be_loaded_is_the_cause_where_only_it_ends() -> None:
    (found,) = diagnoses(played(states=(says(StateKind.LOAD_FAILED),), changes=(release(30.0),)))
    assert [link.name for link in found.links] == ["missing", "load-failure", "new-version"]


def test_a_release_that_wrote_nothing_of_what_computes_is_not_why_it_is_slower() -> None:
    (found,) = diagnoses(played({"compute": 0.060}, changes=(wrote("health.liveness.interval", "10s", "20s"),)))
    assert found.cause == "model-slower"
    assert "did not write" in next(each.said for each in found.ruled_out if each.name == "new-version")


def crowded(*changes: Change, instances: int = 1) -> Observed:
    """A service whose replicas compute 0.9 batches at once, of requests as before, that wait."""
    pods = {f"defects-r0123456789-5b6bb57495-tj4t{number}": (0.45, 0.9) for number in "abc"}
    settings = {"r0123456789": ServedSettings(instances=instances), "r9876543210": ServedSettings(instances=2)}
    return played({"queue": 0.045, "batch_size": 6.0}, apart={"busy_by_pod": pods}, changes=changes, settings=settings)


def test_a_release_with_fewer_instances_is_why_requests_wait() -> None:
    (found,) = diagnoses(crowded(wrote("runtime.models.defects.instances", "2", "1")))
    assert [link.name for link in found.links] == ["slow", "queue-longer", "too-few-instances", "concurrency-lowered"]
    assert "runtime.models.defects.instances 2 -> 1" in found.links[-1].evidence[0]
    assert "of the added" in found.links[1].evidence[0]


def test_a_release_with_more_instances_is_not_why_requests_wait() -> None:
    (found,) = diagnoses(crowded(wrote("runtime.models.defects.instances", "1", "2")))
    assert found.cause == "too-few-instances"


def test_instances_that_are_mostly_free_are_not_too_few() -> None:
    (found,) = diagnoses(crowded(instances=4))
    assert found.cause == "batch-larger"


def test_a_longer_batch_delay_is_told_with_its_part_of_the_added_time() -> None:
    (found,) = diagnoses(
        played({"queue": 0.042, "batch_size": 8.0, "compute": 0.020}, changes=(wrote("batching.max_delay", "2ms", "50ms"),))
    )
    assert [link.name for link in found.links] == ["slow", "queue-longer", "batch-larger", "batching-raised"]
    assert "batching.max_delay 2ms -> 50ms" in found.links[-1].evidence[0]


def test_a_shorter_batch_delay_makes_nobody_wait() -> None:
    (found,) = diagnoses(
        played({"queue": 0.042, "batch_size": 8.0, "compute": 0.020}, changes=(wrote("batching.max_delay", "50ms", "2ms"),))
    )
    assert found.cause == "batch-larger"


def test_a_version_that_cannot_be_loaded_is_named_however_long_it_tries() -> None:
    old = wrote("artifact.digest", "a", "b", kind=ChangeKind.CANDIDATE, before=3000.0)
    (found,) = diagnoses(played(states=(says(StateKind.LOAD_FAILED),), changes=(old,)))
    assert [link.name for link in found.links] == ["missing", "load-failure", "candidate-unfit"]


def test_a_replica_that_has_just_become_ready_harms_nobody_by_that() -> None:
    (found,) = diagnoses(played(states=(says(StateKind.YOUNG),)))
    assert found.verdict is DiagnosisVerdict.NOTHING
    slow = CASES["gpu-slow-and-silent"]
    (found,) = diagnoses(Observed(**{**slow.__dict__, "states": (says(StateKind.YOUNG, subject="a"),)}))
    assert found.cause == "gpu-slow-and-silent"


def test_batches_that_fill_because_the_model_is_slow_are_not_its_cause() -> None:
    """As a real server showed it: six times as long for each batch, 60 requests a second."""
    (found,) = diagnoses(played({"compute": 0.148, "queue": 0.158, "batch_size": 12.0}))
    assert [link.name for link in found.links] == ["slow", "queue-longer", "model-longer-queues", "model-slower"]


def test_an_old_release_is_not_blamed_for_what_began_later() -> None:
    (found,) = diagnoses(played({"compute": 0.060}, changes=(release(1500.0),)))
    assert found.cause == "model-slower"


def test_two_faults_at_once_are_told_apart() -> None:
    found = diagnoses(played({"compute": 0.060, "limited": 0.4}))
    assert [each.cause for each in found] == ["model-slower", "over-the-rate"]


def test_symptoms_of_one_cause_are_told_once() -> None:
    (found,) = diagnoses(played({"errors": 0.1, "unreached": 0.1}, states=(says(StateKind.MEMORY_KILLED),)))
    assert (found.symptom, found.also) == (Symptom.FAILING, (Symptom.ENDING,))


def test_a_server_that_hangs_is_named_before_its_probe_ends_it() -> None:
    missing = played(states=(says(StateKind.HANGING),))
    failing = played({"errors": 0.9, "unreached": 0.9}, states=(says(StateKind.HANGING),))
    assert [[each.cause for each in diagnoses(those)] for those in (missing, failing)] == [["server-hangs"]] * 2


def test_the_beginning_is_found_within_a_step() -> None:
    (found,) = diagnoses(CASES["model-slower"])
    assert found.onset is not None and abs(found.onset - ONSET) <= STEP


def test_a_promise_that_only_a_tail_breaks_is_said_with_no_cause() -> None:
    (found,) = diagnoses(played({"burn": 20.0}))
    assert (found.symptom, found.verdict) == (Symptom.BROKEN, DiagnosisVerdict.UNKNOWN)


def test_a_promise_that_one_slow_replica_breaks_names_it() -> None:
    pods = {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.030)}
    (found,) = diagnoses(played({"burn": 20.0, "compute": 0.020}, apart={"compute_by_pod": pods}))
    assert (found.symptom, found.cause, found.links[-1].where) == (Symptom.BROKEN, "one-replica-slow", "c")


def test_a_promise_that_nothing_explains_comes_behind_what_is_explained() -> None:
    found = diagnoses(played({"burn": 20.0}, states=(says(StateKind.QUOTA_FULL),)))
    assert [each.symptom for each in found] == [Symptom.MISSING, Symptom.BROKEN]


def test_what_looks_so_and_is_not_proven_is_not_ruled_out() -> None:
    whole = played({"errors": 0.4, "failures": 0.4})
    line = [(moment, 0.9 if number == STEPS - 1 else 0.0) for number, (moment, _) in enumerate(whole.of("unreached"))]
    (found,) = diagnoses(replace(whole, series={**whole.series, "unreached": {"": tuple(line)}}))
    assert "nobody-answers" in {each.name for each in found.could_be}
    assert "nobody-answers" in {each.name for each in diagnoses(whole)[0].ruled_out}


def test_a_broken_promise_is_no_second_symptom_of_slow_answers() -> None:
    found = diagnoses(played({"burn": 20.0, "compute": 0.060}))
    assert [(each.symptom, each.also) for each in found] == [(Symptom.SLOW, ())]


def test_three_steps_are_enough_to_see_what_began() -> None:
    whole = played({"limited": 0.5})
    short = {name: {"": by[""][: 40 + 3]} for name, by in whole.series.items()}
    (found,) = diagnoses(Observed(**{**whole.__dict__, "series": short, "at": ONSET + 3 * STEP}))
    assert found.cause == "over-the-rate"


def test_a_cause_says_how_much_of_the_harm_it_explains() -> None:
    (found,) = diagnoses(played({"compute": 0.058, "queue": 0.006}))
    phase = next(link for link in found.links if link.name == "model-longer")
    assert phase.share == pytest.approx(40 / 42, abs=0.05)
    assert "of the added" in phase.evidence[0]


def test_a_phase_that_no_cause_explains_is_an_honest_unknown() -> None:
    (found,) = diagnoses(played({"output": 0.050}))
    assert (found.verdict, found.cause, found.links[-1].name) == (DiagnosisVerdict.UNKNOWN, "", "output-longer")


def test_without_metrics_nobody_says_that_nothing_is_wrong() -> None:
    (found,) = diagnoses(Observed(tenant="a", model="b", at=0.0, step=1.0, blind=(Blindness(what=METRICS, why="away"),)))
    assert found.verdict is DiagnosisVerdict.BLIND


def young(burn: float, *, paged: bool) -> Observed:
    """A service of which nothing from before its fault is known."""
    whole = played({"compute": 0.060, "burn": burn, "paged": float(paged)})
    since = {name: {label: each[-5:] for label, each in by.items()} for name, by in whole.series.items()}
    return Observed(**{**whole.__dict__, "series": since})


@pytest.mark.parametrize("burn", [40.0, 8.0])
def test_a_promise_that_pages_is_not_fine_because_there_is_no_before(burn: float) -> None:
    """At 90 % nothing burns more than ten times too fast, and the alert of a breakdown pages at five and a half."""
    (found,) = diagnoses(young(burn, paged=True))
    assert (found.verdict, found.symptom, found.onset) == (DiagnosisVerdict.UNKNOWN, Symptom.BROKEN, None)


def test_a_budget_for_which_nobody_is_paged_is_no_symptom_by_itself() -> None:
    (found,) = diagnoses(young(7.0, paged=False))
    assert found.verdict is DiagnosisVerdict.NOTHING


def test_what_counts_as_a_page_is_what_the_rules_of_a_promise_page_for() -> None:
    groups = objectives.rules("vision", model := changed(DEFECTS), SURROUNDINGS)["spec"]["groups"]
    pages = [each["labels"] | {"alertname": each["alert"]} for group in groups for each in group["rules"] if "alert" in each]
    asked = dict(re.findall(r'(\w+)="([^"]+)"', query(MEASURES["paged"], "vision", "defects", "1m").partition("}")[0]))
    assert asked.pop("alertstate") == "firing"
    found = [each for each in pages if asked.items() <= each.items()]
    assert {each["long_window"] for each in found} == {
        each.long for slo in model.slo for each in objectives.burns(slo) if each.severity == "page"
    }


def test_without_metrics_the_clusters_objects_still_tell_of_a_cause() -> None:
    blind = (Blindness(what=METRICS, why="away"),)
    (found,) = diagnoses(Observed(tenant="a", model="b", at=AT, step=1.0, states=(says(StateKind.QUOTA_FULL),), blind=blind))
    assert (found.cause, found.blind) == ("quota-full", blind)


def test_what_was_not_measured_could_also_be_and_is_not_ruled_out() -> None:
    whole = played({"compute": 0.060})
    without = {name: each for name, each in whole.series.items() if name != "throttled"}
    (found,) = diagnoses(Observed(**{**whole.__dict__, "series": without}))
    assert found.cause == "model-slower"
    assert "cpu-quota-used-up" in {each.name for each in found.could_be} - {each.name for each in found.ruled_out}


def test_a_slow_replica_under_a_gpu_that_nobody_watches_is_no_silent_gpu() -> None:
    pods = {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.042)}
    (found,) = diagnoses(played({"compute": 0.026}, apart={"compute_by_pod": pods}))
    assert found.cause == "one-replica-slow"
    assert "gpu-slow-and-silent" in {each.name for each in found.could_be}


def test_the_node_under_a_slow_gpu_is_named_in_what_to_do() -> None:
    (found,) = diagnoses(Observed(**{**CASES["gpu-slow-and-silent"].__dict__, "hosts": {"c": "h100-a-0"}}))
    assert found.links[-1].node == "h100-a-0"


def test_the_hot_gpu_of_a_lone_replica_is_the_cause_and_not_its_version() -> None:
    lone = {"compute_by_pod": {"a": (0.018, 0.12)}, "hot": {"x": (0.0, 0.6)}}
    (found,) = diagnoses(played({"compute": 0.12, "queue": 0.13}, apart=lone))
    assert found.cause == "gpu-hot"


def test_what_a_part_adds_is_told_in_the_unit_of_the_whole() -> None:
    (found,) = diagnoses(played({"queue": 3.0}))
    assert re.search(r": \+[\d.]+ s of the added [\d.]+ s$", found.links[1].evidence[0])


def test_what_is_ruled_out_is_so_by_figures() -> None:
    (found,) = diagnoses(CASES["model-slower"])
    doubts = {each.name: each.said for each in found.ruled_out}
    assert "0 % before" in doubts["cpu-quota-used-up"]


@pytest.mark.parametrize(("calm", "names"), [(CALM, PHASES), (CALM_STREAMED, STREAMED_PHASES)], ids=["triton", "vllm"])
@given(longer=st.lists(st.floats(0.001, 0.2), min_size=4, max_size=4), way=st.floats(0.0, 0.2), proxy=st.floats(0.0, 0.2))
def test_the_phases_add_up_to_the_whole_and_to_what_was_added(
    calm: dict[str, float], names: tuple[str, ...], longer: list[float], way: float, proxy: float
) -> None:
    slower = {name: calm[name] + more for name, more in zip(names, longer, strict=False)}
    served = calm["served"] + sum(slower[name] - calm[name] for name in names)
    inner = {**slower, "served": served, "at_replica": served + 0.001 + proxy, "latency": served + 0.005 + proxy + way}
    observed = played(inner, calm=calm)
    for found in diagnoses(observed):
        if found.symptom is Symptom.SLOW:
            whole = facts(observed, found.onset).compared["latency"]
            assert {"way", "proxy", *names, "server besides"} == {each.name for each in found.phases}
            assert sum(each.since for each in found.phases) == pytest.approx(whole.since)
            assert sum(each.before for each in found.phases) == pytest.approx(whole.before)
            assert sum(each.since - each.before for each in found.phases) == pytest.approx(whole.change)


def test_every_hypothesis_explains_a_symptom_in_the_end() -> None:
    reached = {str(each) for each in Symptom}
    for _ in HYPOTHESES:
        reached |= {each.name for each in HYPOTHESES if set(each.explains) & reached}
    assert {each.name for each in HYPOTHESES} <= reached
    assert {name for each in HYPOTHESES for name in each.explains} <= reached


def test_no_two_hypotheses_have_one_name() -> None:
    names = [each.name for each in HYPOTHESES]
    assert len(names) == len(set(names))


STREAMED = {
    "prefix-cache-cold": ({"prefill": 0.300, "prefix_hits": 0.1}, ["prefill-longer", "prefix-cache-cold"]),
    "longer-prompts": ({"prefill": 0.300, "prompt_tokens": 1200.0}, ["prefill-longer", "longer-prompts"]),
    "more-requests": ({"decode": 0.900, "requests": 400.0}, ["decode-longer", "more-requests"]),
    "cache-full by waiting": ({"queue": 0.400, "kv_cache": 0.99}, ["queue-longer", "cache-full"]),
    "cache-full by preemption": ({"decode": 0.700, "kv_cache": 0.99, "preemptions": 0.5}, ["decode-longer", "preempted", "cache-full"]),
    "cache-full, and its use not measured": ({"decode": 0.700, "preemptions": 0.5}, ["decode-longer", "preempted", "cache-full"]),
}


@pytest.mark.parametrize("case", STREAMED)
def test_a_fault_of_a_language_model_is_led_to_its_cause(case: str) -> None:
    since, links = STREAMED[case]
    calm = {name: level for name, level in CALM_STREAMED.items() if "not measured" not in case or name != "kv_cache"}
    (found,) = diagnoses(played(since, calm=calm))
    assert [link.name for link in found.links] == ["slow", *links]


def filled(*changes: Change, running: float, most: int = 16) -> Observed:
    """A language model whose requests wait, while replicas compute so many sequences of at most `most`."""
    pods = {f"chat-r0123456789-5b6bb57495-tj4t{number}": (running, running) for number in "abc"}
    settings = {"r0123456789": ServedSettings(sequences=most)}
    return played({"queue": 0.400}, calm=CALM_STREAMED, apart={"running_by_pod": pods}, changes=changes, settings=settings)


def test_a_release_with_fewer_sequences_is_why_requests_wait() -> None:
    (found,) = diagnoses(filled(wrote("batching.max_sequences", "64", "16"), running=15.8))
    assert [link.name for link in found.links] == ["slow", "queue-longer", "too-few-sequences", "concurrency-lowered"]


def test_sequences_that_are_not_all_in_use_are_not_too_few() -> None:
    (found,) = diagnoses(filled(running=6.0))
    assert (found.verdict, found.links[-1].name) == (DiagnosisVerdict.UNKNOWN, "queue-longer")


def test_an_autoscaler_at_its_maximum_without_more_load_is_no_cause() -> None:
    (found,) = diagnoses(played({"compute": 0.060, "of_maximum": 1.0}))
    assert found.cause == "model-slower"


def test_no_measure_asks_for_series_that_the_platform_drops() -> None:
    """The chart drops cAdvisor's `container_spec.*`, and a limit of a replica is counted by its own proxy."""
    asked = {name: query(each, "vision", "defects", "1m") for name, each in MEASURES.items()}
    assert not [name for name, text in asked.items() if "container_spec" in text or "$" in text]
    assert 'reporter="destination"' in asked["overflow"]


@pytest.mark.parametrize("measure", ["latency", "at_replica"])
def test_who_is_told_of_an_error_at_once_makes_no_answer_faster(measure: str) -> None:
    assert query(MEASURES[measure], "vision", "defects", "1m").count(f",{ANSWERED}}}") == 2


@pytest.mark.parametrize(("code", "counts"), [("0", True), ("200", True), ("504", True), ("500", False), ("503", False), ("429", False)])
def test_of_errors_only_a_time_that_passed_is_as_slow_as_it_felt(code: str, counts: bool) -> None:
    assert (re.fullmatch(ANSWERED.partition('"')[2].rstrip('"'), code) is not None) is counts
