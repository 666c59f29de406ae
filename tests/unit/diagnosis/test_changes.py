"""Who changed what of a service: by its ledger, by the templates that a Deployment keeps, by the commits of the checkout."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headway.diagnosis.asking_changes import Way, moved, written
from headway.diagnosis.changes import of_deployments, of_releases, serving_contents, settings_of
from headway.diagnosis.commits import of_checkout
from headway.diagnosis.facts import ChangeKind, ServedSettings, TouchedField
from headway.environment.port import OutOfReachError
from headway.release.driver.rollout_state import fold
from tests.components.contracts import MODELS
from tests.unit.release.driver.test_rollout_state import chain, divided, intended, moment

DELAY = {"path": "batching.max_delay", "old": "2ms", "new": "50ms", "effect": "latency", "release": True}


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def told(*more: Any) -> Any:
    adopted, started, *rest = chain(*more)
    return fold((adopted, replace(started, body={**started.body, "difference": {"changes": [DELAY]}}), *rest))


def test_a_release_is_a_change_each_time_that_users_get_more_of_it() -> None:
    found = [each for each in of_releases(told(intended(divided(10)), intended(divided(50)))) if each.kind is ChangeKind.RELEASE]
    assert [(each.time, each.words) for each in found] == [
        (seconds(moment(3)), "release r2 began to replace r1"),
        (seconds(moment(4)), "release r2 got 50 % of users' requests"),
    ]
    assert all(each.touched == (TouchedField(path="batching.max_delay", old="2ms", new="50ms"),) for each in found)


def test_a_way_back_writes_the_reverse() -> None:
    *_, last = of_releases(told(intended(divided(10)), ("applied", {}), ("ended", {"outcome": "rolled back"})))
    assert last.touched == (TouchedField(path="batching.max_delay", old="50ms", new="2ms"),)


def test_a_version_on_its_way_is_a_candidate_until_its_release_is_over() -> None:
    kinds = [each.kind for each in of_releases(told(intended(divided(0))))]
    assert kinds == [ChangeKind.CANDIDATE]
    assert ChangeKind.CANDIDATE not in [each.kind for each in of_releases(told(("ended", {"outcome": "refused"})))]


def test_a_ledger_that_does_not_say_what_a_release_changed_leaves_it_unknown() -> None:
    assert {each.touched for each in of_releases(fold(chain(intended(divided(10)))))} == {None}


def test_the_contracts_of_both_versions_say_how_much_a_replica_computes_at_once() -> None:
    assert serving_contents(told(intended(divided(10)))) == {"r1": "d1", "r2": "d2"}
    found = [settings_of(model) for model in MODELS.values()]
    assert {ServedSettings(instances=2), ServedSettings(sequences=128)} <= set(found), found


@pytest.mark.parametrize(
    ("old", "new", "way"),
    [
        ("2ms", "50ms", Way.UP),
        ("8Gi", "512Mi", Way.DOWN),
        ("4", "500m", Way.DOWN),
        ("100/s", "40/s", Way.DOWN),
        ("2", "1", Way.DOWN),
        ("fp8", "auto", Way.ANY),
        (None, "1", Way.ANY),
        ("1", "1", Way.ANY),
    ],
)
def test_which_way_a_field_went_is_read_from_its_units(old: str | None, new: str | None, way: Way) -> None:
    assert moved(TouchedField(path="x", old=old, new=new)) is way


def test_of_many_fields_the_first_few_are_told() -> None:
    fields = [TouchedField(path=f"a{number}", old=None, new="1") for number in range(5)]
    assert written(fields) == "a0 none -> 1, a1 none -> 1, a2 none -> 1 and 2 more"


def minute(number: int) -> float:
    return datetime(2026, 11, 29, 0, number, tzinfo=UTC).timestamp()


def _replica_set(revision: int, minute: int, **server: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"pod-template-hash": str(revision), "a": "b"}},
        "spec": {"containers": [{"name": "server", **server}]},
    }
    return {
        "metadata": {
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
            "creationTimestamp": f"2026-11-29T00:{minute:02d}:00Z",
            "ownerReferences": [{"kind": "Deployment", "name": "defects-r1"}],
        },
        "spec": {"template": template},
    }


def _deployment(manager: str, minute: int) -> dict[str, Any]:
    entry = {"manager": manager, "time": f"2026-11-29T00:{minute:02d}:01Z", "fieldsV1": {"f:spec": {"f:template": {}}}}
    return {"metadata": {"name": "defects-r1", "managedFields": [entry]}}


LESS = (_replica_set(2, 50, resources={"limits": {"cpu": "1"}}), _replica_set(1, 10, resources={"limits": {"cpu": "4"}}))
CPU = TouchedField(path="spec.containers.server.resources.limits.cpu", old="4", new="1")


def test_what_a_person_wrote_into_a_template_is_told_by_the_one_before() -> None:
    (found,) = of_deployments([_deployment("kubectl-edit", 50)], LESS, ())
    assert (found.kind, found.touched) == (ChangeKind.DEPLOYMENT, (CPU,))


def test_a_template_that_nobody_wrote_by_hand_is_the_programs() -> None:
    (found,) = of_deployments([_deployment("pulumi-kubernetes", 50)], LESS, ())
    assert (found.kind, found.time, found.touched) == (ChangeKind.PLATFORM, minute(50), (CPU,))


def test_a_template_of_another_time_than_the_write_says_nothing_of_it() -> None:
    found = {each.kind: each for each in of_deployments([_deployment("kubectl", 20)], LESS, ())}
    assert found[ChangeKind.DEPLOYMENT].touched is None


WENT_BACK = (_replica_set(2, 30, image="b"), _replica_set(3, 10, image="a"))
"""The third template is the first one again, whose ReplicaSet is older than the one between."""


def test_a_template_that_came_back_has_the_time_of_whoever_brought_it() -> None:
    (found,) = of_deployments([_deployment("pulumi-kubernetes", 50)], WENT_BACK, ())
    assert (found.kind, found.time) == (ChangeKind.PLATFORM, minute(50) + 1)
    assert not list(of_deployments([_deployment("pulumi-kubernetes", 20)], WENT_BACK, ())), "it wrote the one before that"
    (hand,) = of_deployments([_deployment("kubectl-rollout", 50)], WENT_BACK, ())
    assert hand.kind is ChangeKind.DEPLOYMENT
    assert hand.touched == (TouchedField(path="spec.containers.server.image", old="b", new="a"),)


def _pod(made: int) -> dict[str, Any]:
    owner = {"kind": "ReplicaSet", "name": "defects-r1-5b6bb57495"}
    return {"metadata": {"creationTimestamp": f"2026-11-29T00:{made:02d}:00Z", "ownerReferences": [owner]}}


@pytest.mark.parametrize(("made", "harms"), [((10, 20), False), ((10, 51), True), ((), True)])
def test_what_was_written_after_every_pod_was_made_harms_none(made: tuple[int, ...], harms: bool) -> None:
    for manager in ("kubectl-edit", "pulumi-kubernetes"):
        assert bool(list(of_deployments([_deployment(manager, 50)], LESS, map(_pod, made)))) is harms


def test_a_deployment_with_one_template_was_never_changed() -> None:
    assert not list(of_deployments([_deployment("pulumi-kubernetes", 10)], LESS[1:], ()))


def git(project: Path, *arguments: str, at: str = "2026-11-29T00:10:00Z") -> None:
    who = {
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "a@example.com",
    }
    plain = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": "/usr/bin:/bin", "HOME": str(project)}
    times = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    subprocess.run(["git", "-C", str(project), *arguments], check=True, capture_output=True, env={**plain, **who, **times})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three commits: contracts; at 00:40 a smaller limit and a smaller pool; at 00:50 another tenant's contract."""
    git(tmp_path, "init", "-q")
    for name, text in (
        ("tenants/vision/tenant.yaml", "quota: {requests: 100/s}\n"),
        ("tenants/vision/defects.yaml", "batching: {max_delay: 2ms}\n"),
        ("tenants/search/tenant.yaml", "quota: {requests: 100/s}\n"),
        ("stacks/Pulumi.prod-cluster.yaml", "config: {'headway:pools': [{name: l4, size: {max: 8}}]}\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin")
    (tmp_path / "tenants/vision/tenant.yaml").write_text("quota: {requests: 40/s}\n")
    (tmp_path / "stacks/Pulumi.prod-cluster.yaml").write_text("config: {'headway:pools': [{name: l4, size: {max: 2}}]}\n")
    git(tmp_path, "commit", "-qam", "Save money", at="2026-11-29T00:40:00Z")
    (tmp_path / "tenants/search/tenant.yaml").write_text("quota: {requests: 1/s}\n")
    git(tmp_path, "commit", "-qam", "Another tenant", at="2026-11-29T00:50:00Z")
    return tmp_path


def commits(project: Path, since: int) -> Any:
    start = datetime(2026, 11, 29, 0, since, tzinfo=UTC).timestamp()
    return of_checkout(project, "prod", "vision", "defects", since=start, until=start + 3000)


def test_a_commit_tells_what_it_wrote_into_contracts_and_the_environment(checkout: Path) -> None:
    found = {each.kind: each for each in commits(checkout, 30)}
    assert found[ChangeKind.CONTRACT].touched == (TouchedField(path="quota.requests", old="100/s", new="40/s"),)
    assert found[ChangeKind.PLATFORM].touched == (TouchedField(path="config.headway:pools.l4.size.max", old="8", new="2"),)
    assert {each.who for each in found.values()} == {"Ann"}
    assert "(Save money) wrote tenants/vision/tenant.yaml" in found[ChangeKind.CONTRACT].words


@pytest.mark.parametrize("text", ["1: a\nquota: b\n", "- a\n", "null\n", "{{{", "? [a]\n: b\n", "\x00", "true: 1\n2.5: {~: 3}\n"])
def test_a_committed_file_that_is_no_contract_ends_no_diagnosis(checkout: Path, text: str) -> None:
    (checkout / "tenants/vision/defects.yaml").write_text(text)
    git(checkout, "commit", "-qam", "Oops\x1f1\x1f", at="2026-11-29T00:55:00Z")
    (found,) = commits(checkout, 52)
    assert "wrote tenants/vision/defects.yaml" in found.words


def test_a_merge_wrote_what_its_branch_wrote_when_it_was_merged(checkout: Path) -> None:
    git(checkout, "checkout", "-qb", "batches", "HEAD~2")
    (checkout / "tenants/vision/defects.yaml").write_text("batching: {max_delay: 50ms}\n")
    git(checkout, "commit", "-qam", "Wait longer", at="2026-11-29T00:20:00Z")
    git(checkout, "checkout", "-q", "-")
    git(checkout, "merge", "-q", "--no-ff", "-m", "Merge batches", "batches", at="2026-11-29T00:55:00Z")
    (found,) = commits(checkout, 52)
    assert "(Merge batches) wrote tenants/vision/defects.yaml" in found.words
    assert found.touched == (TouchedField(path="batching.max_delay", old="2ms", new="50ms"),)
    assert found.time == datetime(2026, 11, 29, 0, 55, tzinfo=UTC).timestamp()


def test_commits_of_another_time_or_tenant_are_none_of_the_services(checkout: Path) -> None:
    assert commits(checkout, 45) == ()


def test_a_first_commit_wrote_all_that_there_is(checkout: Path) -> None:
    found = [each for each in commits(checkout, 5) if "defects.yaml" in each.words]
    assert found[0].touched == (TouchedField(path="batching", old=None, new="{max_delay: 2ms}"),)


def test_a_folder_without_a_history_says_so(tmp_path: Path) -> None:
    with pytest.raises(OutOfReachError, match="is no git repository"):
        commits(tmp_path, 5)
