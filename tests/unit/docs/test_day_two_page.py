"""Every line that `docs/guide/day-two.md` asks a person to type is typed by a test, or is named here with the reason why not."""

import re
from pathlib import Path

import pytest

from components.versions import LOAD_BALANCER_CONTROLLER
from tests.day_two_page import sections

ROOT = Path(__file__).parents[3]
CLUSTER, TENANT = "tests/environments/test_day_two.py", "tests/cluster/test_day_two_tenant.py"
CERTIFICATE = "tests/traffic/test_gateway_certificate.py"
REGION = "tests/components/stacks/test_second_region.py"

WALKED = {
    ("Drift, every night", "dev-cluster"): (CLUSTER, "test_the_nightly_command_names_changes_and_not_the_autoscalers"),
    ("Drift, every night", "dev-platform"): (TENANT, "test_the_nightly_command_names_what_somebody_changed_in_the_platform"),
    ("Drift, every night", "dev-hello"): (TENANT, "test_the_nightly_command_names_what_somebody_changed_in_the_cluster"),
    ("An interrupted update", "dev-cluster"): (CLUSTER, "test_a_refresh_tells_what_was_being_made_when_an_update_was_killed"),
    ("Definitions, certificates, keys", "dev-cluster"): (CLUSTER, "test_a_stacks_secrets_move_to_another_passphrase"),
    ("Definitions, certificates, keys", "headway certificate"): (
        CERTIFICATE,
        "test_the_pages_command_judges_the_certificate_before_it_is_put_in_place",
    ),
    ("Lost state", "dev-cluster"): (CLUSTER, "test_lost_state_is_the_object_as_it_was_before"),
    ("Lost state", "dev-hello"): (TENANT, "test_a_tenants_lost_state_is_rebuilt_from_what_serves"),
    ("A tenant leaves", "dev-hello"): (TENANT, "test_a_tenant_that_is_removed_leaves_its_ledger_and_nothing_else"),
    ("A tenant leaves", "--tenant"): (TENANT, "test_a_tenant_that_is_removed_leaves_its_ledger_and_nothing_else"),
    ("A second region", "headway release"): (REGION, "test_a_second_region_serves_what_was_copied_and_its_releases_come_home"),
    ("Destroy", "dev"): (CLUSTER, "test_a_destroyed_environment_leaves_what_its_cluster_made_and_that_is_told"),
}
"""Heading and a word of a line -> the test that types such lines, as it reads them from the page."""

PROTECTED = "test_a_protected_environment_goes_once_its_file_says_that_it_may changes and updates a copy's disposable environment"
NOT_TYPED = {
    "kubectl create secret tls models-tls": "kubectl is not among what this checkout installs; the test replaces the same secret by the API",
    "headway doctor -e dev": "tests/traffic/test_gateway_certificate.py asks its check of the certificate, before and after",
    "aws s3api list-object-versions": "there is no AWS CLI here; the test makes the same call of S3's API by boto3",
    "aws s3api copy-object": "there is no AWS CLI here; the test makes the same call of S3's API by boto3",
    "aws s3 rm": "there is no AWS CLI here; the test deletes the same objects by boto3",
    'sed -i "s/deletion_protection': PROTECTED,
    "pulumi up -s prod-access --yes": PROTECTED,
    "pulumi up -s prod-cluster --yes --skip-preview": PROTECTED,
    "export HEADWAY_LEDGER=": "the test sets the variable for the commands after it",
    "helm ": "the sandbox records releases and runs none, so Helm has nothing to list, to lock or to upgrade",
    "pulumi state unprotect": "the embedded engine edits no state; tests/components/access/test_access_layer.py holds its URN to the program",
    "pulumi cancel -s dev-platform": "the embedded engine's lock ends with whoever holds it",
    "PULUMI_K8S_UPSERT_EXISTING_OBJECTS=true pulumi up -s dev-platform --refresh": "typed for a tenant, below Lost state",
}
"""How a line begins -> why no test types it."""


def test_definitions_that_no_chart_upgrades_are_of_its_repository() -> None:
    (line,) = [line for _, line in LINES if line.startswith("helm show crds")]
    chart = LOAD_BALANCER_CONTROLLER
    assert line.startswith(f"helm show crds {chart.chart} --repo {chart.repository} --version ")


LINES = [(heading, line) for heading, lines in sections().items() for line in lines]


@pytest.mark.parametrize(("heading", "line"), LINES)
def test_a_line_of_the_page_is_typed_by_a_test_or_named_with_its_reason(heading: str, line: str) -> None:
    named = [start for start in NOT_TYPED if line.startswith(start)]
    typed = [test for (where, word), test in WALKED.items() if where == heading and word in line]
    assert named or typed, f"nobody types {line!r}"


@pytest.mark.parametrize(("file", "test"), sorted(set(WALKED.values())))
def test_a_test_that_types_lines_exists_and_reads_them_from_the_page(file: str, test: str) -> None:
    source = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {test}(" in source
    read = re.findall(r'(?:commands\(|sections\(\)\[|leftovers\(sandbox, )"([^"]+)"', source)
    headings = {heading for (heading, _), walked in WALKED.items() if walked == (file, test)}
    assert headings <= set(read), f"{file} does not read {headings - set(read)}"


def test_no_reason_outlives_its_line() -> None:
    assert [start for start in NOT_TYPED if not any(line.startswith(start) for _, line in LINES)] == []
