"""The tenant stack and the release ledger: a plan renders the traffic split that the ledger holds, whatever the
contract says.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway.contract.assignment import HASH
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.contract.units import Share
from headway.ledger.chain import Ledger, register
from headway.ledger.copying import copy
from headway.ledger.events import UNBOUND, Event, key
from headway.ledger.serving import ADOPTED, INTENDED, STARTED
from headway.ledger.store import FolderStore, LedgerStore, MissingStoreError, UnreachableError, Written
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit, UserSplit
from headway.ledger.witness import LedgerWitness
from headway.ledger.witness_place import FolderWitness
from stacks.settings_error import SettingsError
from tests.components.contracts import CONTAINER, DEFECTS, MODELS, PLAIN, TENANTS, changed, document
from tests.components.recording import Recording, Registration
from tests.components.stacks.test_tenant import write
from tests.components.tenant_layer import planned, settings_of

CHAIN = "vision/defects"
NEW_VERSION = {"artifact": {"version": "2026.12.1"}}


def plan(folder: Path, ledger: LedgerStore | None, witness: LedgerWitness | None = None) -> Recording:
    return planned(settings_of("sandbox-vision"), folder, ledger, witness)


def contract(folder: Path = TENANTS) -> Model:
    loaded = load_tenant(folder / "vision", settings_of("sandbox-vision").pools).tenant("vision")
    assert loaded is not None
    return next(model for model in loaded.models if model.name == "defects")


def chain(store: LedgerStore) -> Ledger:
    return Ledger(store, CHAIN, "sandbox", "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC))


def kept(store: LedgerStore, model: Model) -> str:
    return register(store, CHAIN, {"id": release_id(model), "contract": model.model_dump(mode="json")})


def adopted(store: LedgerStore, model: Model) -> Ledger:
    ledger = chain(store)
    ledger.append(ADOPTED, {"division": TrafficSplit.only(release_id(model), kept(store, model)).document()})
    return ledger


def begun(store: LedgerStore, model: Model) -> Ledger:
    ledger = adopted(store, model)
    ledger.append(STARTED, {})
    return ledger


def edited(folder: Path, **changes: Any) -> Path:
    """The sample contract with some fields changed, alone in its tenant."""
    content = document("vision", "defects")
    for section, fields in changes.items():
        content[section] = {**content[section], **fields}
    content.pop("batch", None)
    return write(folder, "vision", defects=content)


def route(found: Recording) -> dict[str, Any]:
    return spec(found, "VirtualService", "defects")["http"][-1]


def spec(found: Recording, kind: str, name: str) -> dict[str, Any]:
    (one,) = [r for r in found.registrations if r.type.endswith(f":{kind}") and r.inputs["metadata"]["name"] == name]
    return one.inputs["spec"]


def servers(found: Recording) -> list[Registration]:
    return [r for r in found.registrations if r.type == "kubernetes:apps/v1:Deployment" and "defects" in r.name]


def weights(found: Recording) -> list[int]:
    return [destination["weight"] for destination in route(found)["route"]]


def test_a_model_without_a_ledger_entry_is_its_contract_at_full_traffic(tmp_path: Path) -> None:
    found = plan(edited(tmp_path), FolderStore(tmp_path / "ledger"))
    assert weights(found) == [100]
    assert found.exports["contracts"]["defects"]["release"] == release_id(contract(tmp_path))


def test_a_new_contract_replaces_no_release_and_says_how_to_start_one(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    adopted(store, contract())
    found = plan(edited(tmp_path, **NEW_VERSION), store)
    assert [release_id(contract())] == [r.inputs["metadata"]["labels"]["platform.io/release"] for r in servers(found)]
    assert any("headway release start vision/defects" in said for said in found.log)
    assert "contracts" not in found.exports or "defects" not in found.exports["contracts"]


OTHERS: dict[str, Any] = {
    **PLAIN,
    "runtime": CONTAINER,
    "workload_class": "throughput",
    "envelope__gpu": {"share": "mig", "accelerator": "a100-80gb", "profile": "1g.10gb", "memory": "8Gi"},
    "placement__isolation": "mig",
    "artifact__uri": "s3://elsewhere/vision/defects/",
}


def test_what_serves_keeps_what_it_stands_on_until_its_successor_does(tmp_path: Path) -> None:
    """Whoever applies a contract of another engine, class, accelerator or bucket would else close the paths of the version that serves, and
    leave its next pod without its priority, quota and files."""
    store, folder = FolderStore(tmp_path / "ledger"), edited(tmp_path)
    adopted(store, changed(DEFECTS, **OTHERS))
    found, alone = plan(folder, store), plan(folder, None)
    refused = [spec(each, "AuthorizationPolicy", "no-administration")["rules"][0]["to"][0]["operation"] for each in (found, alone)]
    assert [list(each) for each in refused] == [["paths"], ["notPaths"]], "a container's own paths are open too"
    names = {r.inputs["metadata"]["name"] for r in found.registrations if r.type.endswith((":PriorityClass", ":ResourceQuota"))}
    assert {"headway-vision-throughput-a100-80gb", "headway-vision-latency-l4", "gpus-a100-80gb", "gpus-l4"} <= names
    (policy,) = (r.inputs["policy"] for r in found.registrations if r.name == "vision-models-artifacts")
    assert "arn:aws:s3:::elsewhere/vision/*" in policy


def test_what_a_contract_no_longer_has_is_not_kept_for_the_release_that_had_it(tmp_path: Path) -> None:
    """Its successor's runner may take no priority class away."""
    store, folder = FolderStore(tmp_path / "ledger"), edited(tmp_path)
    adopted(store, changed(DEFECTS, batch=MODELS["defects-night"].batch.model_dump(mode="json")))  # type: ignore[union-attr]
    names = [r.inputs["metadata"]["name"] for r in plan(folder, store).registrations if r.type.endswith(":PriorityClass")]
    assert names == ["headway-vision-latency-l4"]


def test_a_ledger_restored_elsewhere_plans_what_serves(tmp_path: Path) -> None:
    store, restored = FolderStore(tmp_path / "ledger"), FolderStore(tmp_path / "another-region")
    adopted(store, contract())
    copy(store, restored)
    folder = edited(tmp_path, **NEW_VERSION)
    here, there = plan(folder, store), plan(folder, restored)
    assert [r.inputs for r in servers(there)] == [r.inputs for r in servers(here)]
    assert [release_id(contract())] == [r.inputs["metadata"]["labels"]["platform.io/release"] for r in servers(there)]


def test_a_plan_refuses_a_whole_ledger_that_its_witness_contradicts(tmp_path: Path) -> None:
    store, witness = FolderStore(tmp_path / "ledger"), FolderWitness(tmp_path / "witness")
    adopted(store, contract(edited(tmp_path, **NEW_VERSION)))
    witness.write(CHAIN, f"41:{'a' * 64}")
    with pytest.raises(SettingsError, match="is not the one that was witnessed: its witness names event 41, and it ends with event 1"):
        plan(tmp_path, store, witness)


def test_a_plan_does_not_begin_anew_where_the_whole_ledger_is_gone(tmp_path: Path) -> None:
    class Gone(FolderStore):
        def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
            raise MissingStoreError

    witness = FolderWitness(tmp_path / "witness")
    assert weights(plan(edited(tmp_path), Gone(tmp_path), witness)) == [100]
    witness.write(CHAIN, f"41:{'a' * 64}")
    with pytest.raises(SettingsError, match="and it ends with event 0"):
        plan(tmp_path, Gone(tmp_path), witness)


def test_a_plan_whose_witness_does_not_answer_says_so_and_goes_on(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    adopted(store, contract())
    (tmp_path / "witness").write_text("no folder")
    found = plan(edited(tmp_path), store, FolderWitness(tmp_path / "witness"))
    assert weights(found) == [100]
    assert any("vision/defects: the witness of its ledger does not answer" in said for said in found.log)


def test_what_does_not_run_in_a_release_changes_in_place(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    adopted(store, contract())
    found = plan(edited(tmp_path, scaling={"max_replicas": 3}, **NEW_VERSION), store)
    name = f"defects-{release_id(contract())}"
    assert spec(found, "ScaledObject", name)["maxReplicaCount"] == 3


def test_a_plan_in_the_middle_of_a_canary_renders_its_weights_mirror_and_arms(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    old, new = contract(), contract(edited(tmp_path, **NEW_VERSION))
    split = TrafficSplit(
        arms=(
            TrafficArm(release=release_id(old), role=ArmRole.STABLE, weight=Share.percent(90)),
            TrafficArm(release=release_id(old), role=ArmRole.BASELINE, weight=Share.percent(5), replicas=1),
            TrafficArm(release=release_id(new), role=ArmRole.CANARY, weight=Share.percent(5), replicas=1),
        ),
        digests={release_id(old): kept(store, old), release_id(new): kept(store, new)},
        mirror=TrafficMirror(release=release_id(new), share=Share.percent(50)),
    )
    begun(store, old).append(INTENDED, {"division": split.document()})
    found = plan(tmp_path, store)
    assert weights(found) == [90, 5, 5]
    assert route(found)["mirrorPercentage"] == {"value": 50.0}
    assert len(servers(found)) == 3
    assert spec(found, "ScaledObject", f"defects-{release_id(new)}")["maxReplicaCount"] == 1
    assert not any("release start" in said for said in found.log)


def test_a_snapshot_of_an_earlier_headway_is_planned(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    old = contract().model_dump(mode="json")
    old["scaling"]["policy"] = "threshold_table"
    content = register(store, CHAIN, {"id": release_id(contract()), "contract": old})
    chain(store).append(ADOPTED, {"division": TrafficSplit.only(release_id(contract()), content).document()})
    assert weights(plan(edited(tmp_path), store)) == [100]


def divided(store: LedgerStore, tmp_path: Path, hash: str = HASH) -> str:
    """An experiment is under way, and the contract of today knows nothing of it; answers the new version's release."""
    old, new = contract(), contract(edited(tmp_path, **NEW_VERSION))
    split = TrafficSplit(
        arms=(
            TrafficArm(release=release_id(old), role=ArmRole.STABLE, weight=Share.percent(100), at_least=1),
            TrafficArm(release=release_id(new), role=ArmRole.CANARY, weight=Share.percent(0), at_least=1),
        ),
        digests={release_id(old): kept(store, old), release_id(new): kept(store, new)},
        user_split=UserSplit(experiment="tone", share=Share.percent(20), user_claim="account", hash=hash),
    )
    begun(store, old).append(INTENDED, {"division": split.document()})
    return release_id(new)


def test_a_plan_during_an_experiment_renders_it_from_the_ledger(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    new = divided(store, tmp_path)
    found = plan(tmp_path, store)
    rules = spec(found, "VirtualService", "defects")["http"]
    (led,) = [rule for rule in rules if rule["name"] == "split"]
    assert led["match"][0]["headers"] == {"x-experiment": {"exact": "tone"}}
    assert led["route"][0]["destination"]["host"].startswith(f"defects-{new}.")
    assert weights(found) == [100, 0]
    (patch,) = spec(found, "EnvoyFilter", "experiment.vision.defects")["configPatches"]
    (told,) = patch["patch"]["value"]["typed_per_filter_config"].values()
    assert told["filter_context"] == {"experiment": "tone", "claim": "account", "below": 2000}
    assert spec(found, "ScaledObject", f"defects-{new}")["maxReplicaCount"] > 1


def test_an_experiment_of_another_function_is_not_planned(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    divided(store, tmp_path, hash="sha-1")
    with pytest.raises(SettingsError, match="Users of experiment tone are divided by sha-1"):
        plan(tmp_path, store)


def test_a_kept_release_keeps_its_name_whatever_it_would_hash_to_today(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    content = kept(store, contract())
    chain(store).append(ADOPTED, {"division": TrafficSplit.only("r0123456789", content).document()})
    found = plan(edited(tmp_path), store)
    assert [r.inputs["metadata"]["name"] for r in servers(found)] == ["defects-r0123456789"]


def test_an_object_behind_the_last_event_moves_no_traffic(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    begun(store, contract())
    new = contract(edited(tmp_path, **NEW_VERSION))
    body = {"division": TrafficSplit.only(release_id(new), kept(store, new)).document()}
    forged = Event(number=99, previous="f" * 64, time="2026-11-21T12:00:00.000Z", actor="mallory", kind=INTENDED, body=body)
    store.create(key(CHAIN, 99), forged.stored())
    with pytest.raises(SettingsError, match=r"vision/defects:\s+Event 3 of vision/defects does not fit the chain: it is missing"):
        plan(tmp_path, store)


def test_a_ledger_of_another_environment_is_not_planned(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    body = {"division": TrafficSplit.only(release_id(contract()), kept(store, contract())).document()}
    Ledger(store, CHAIN, "prod", "ci", lambda: datetime(2026, 11, 21, tzinfo=UTC)).append(ADOPTED, body)
    with pytest.raises(SettingsError, match="was written for another service or another environment"):
        plan(edited(tmp_path), store)


def test_releases_of_another_service_are_not_planned(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    other = contract().model_copy(update={"name": "embeddings"})
    adopted(store, other)
    with pytest.raises(SettingsError, match="is a contract of embeddings"):
        plan(edited(tmp_path), store)


def test_a_ledger_that_does_not_say_whose_it_is_is_planned_with_a_warning(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    body = {"division": TrafficSplit.only(release_id(contract()), kept(store, contract())).document()}
    old = Event(number=1, previous=UNBOUND, time="2026-11-21T12:00:00.000Z", actor="ci", kind=ADOPTED, body=body)
    store.create(key(CHAIN, 1), old.stored())
    said = plan(edited(tmp_path), store).log
    assert any("headway release bind vision/defects --environment sandbox" in line for line in said)
    chain(store).bind()
    assert not any("release bind" in line for line in plan(tmp_path, store).log)


def test_without_an_answer_of_the_ledger_nothing_is_planned(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"vision/defects:\s+the release ledger does not answer"):
        plan(edited(tmp_path), Unreachable(tmp_path))


def test_an_altered_release_is_not_rendered(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "ledger")
    adopted(store, contract())
    (path,) = (tmp_path / "ledger" / CHAIN / "releases").iterdir()
    path.write_text(path.read_text().replace("2026.11.2", "2026.11.9"))
    with pytest.raises(SettingsError, match="not what its name says"):
        plan(edited(tmp_path), store)


def test_an_environment_without_a_ledger_is_planned_from_its_contracts(tmp_path: Path) -> None:
    assert weights(plan(edited(tmp_path), Nowhere(tmp_path))) == [100]


class Unreachable(FolderStore):
    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        raise UnreachableError("ConnectTimeoutError")


class Nowhere(FolderStore):
    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        raise MissingStoreError


def test_a_division_reads_back_as_it_was_written() -> None:
    split = TrafficSplit(
        arms=(
            TrafficArm(release="r1", role=ArmRole.STABLE, weight=Share.percent(99)),
            TrafficArm(release="r2", role=ArmRole.CANARY, weight=Share.percent(1), replicas=2),
        ),
        digests={"r1": "a", "r2": "b"},
        mirror=TrafficMirror(release="r2", share=Share.percent(10)),
    )
    assert TrafficSplit.read(json.loads(json.dumps(split.document()))) == split
