"""The pure parts of the control plane: manifests, stages, certificates and command lines. Nothing is started."""

import base64
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from headway.problem import UserError
from sandbox.cluster import control_plane_programs, disk, linux, manifests, ports, stages
from sandbox.cluster.certificates import Subject, authority, issue
from sandbox.cluster.nodes import READY_DELAY, node_manifest
from sandbox.cluster.processes import Process
from sandbox.cluster.toolchain import Toolchain

READY_STAGE = {"metadata": {"name": "pod-ready"}, "spec": {"selector": {"matchExpressions": []}, "next": {}}}


@pytest.fixture
def site(tmp_path: Path) -> control_plane_programs.ControlPlaneSite:
    programs = tmp_path / "control-plane" / "bin"
    programs.mkdir(parents=True)
    for name in control_plane_programs.NAMES:
        (programs / name).touch()
    named = (*control_plane_programs.NAMES, control_plane_programs.ETCD_PEER)
    toolchain = Toolchain({"control-plane": programs.parent})
    return control_plane_programs.ControlPlaneSite(
        folder=tmp_path / "cluster", ports={name: 20001 + i for i, name in enumerate(named)}, toolchain=toolchain
    )


@pytest.fixture
def processes(site: control_plane_programs.ControlPlaneSite) -> dict[str, Process]:
    who = control_plane_programs.identities(site.folder / "pki")
    made: Sequence[Process] = (
        control_plane_programs.etcd(site, who),
        control_plane_programs.api_server(site, who),
        control_plane_programs.controller_manager(site, who),
        control_plane_programs.scheduler(site, who),
        control_plane_programs.kwok(site, who),
    )
    return {process.name: process for process in made}


def flags(process: Process) -> dict[str, str]:
    return dict(argument.removeprefix("--").split("=", 1) for argument in process.argv[1:])


def test_every_address_in_every_command_line_is_loopback(processes: dict[str, Process]) -> None:
    told = {
        name: value for process in processes.values() for name, value in flags(process).items() if name.endswith(("address", "ip", "urls"))
    }
    assert len(told) >= 7
    assert all("127.0.0.1" in value for value in told.values()), told


def test_every_server_names_its_port_so_that_a_taken_one_is_told(processes: dict[str, Process]) -> None:
    assert sorted(port for process in processes.values() for port in process.ports) == list(range(20001, 20007))


def test_the_datastore_asks_every_client_for_a_certificate(processes: dict[str, Process]) -> None:
    given_flags = flags(processes["etcd"])
    assert given_flags["client-cert-auth"] == given_flags["peer-client-cert-auth"] == "true"
    assert given_flags["trusted-ca-file"].endswith("/etcd.crt"), "the cluster's own clients are no clients of its datastore"


def test_access_is_by_rbac_and_nobody_is_anonymous(processes: dict[str, Process]) -> None:
    assert flags(processes["kube-apiserver"])["authorization-mode"] == "RBAC"
    assert flags(processes["kube-apiserver"])["anonymous-auth"] == "false"
    assert flags(processes["kube-controller-manager"])["use-service-account-credentials"] == "true"


def test_pods_are_admitted_by_the_plugins_of_eks(processes: dict[str, Process]) -> None:
    assert flags(processes["kube-apiserver"])["enable-admission-plugins"] == "ExtendedResourceToleration"


def test_extension_api_servers_can_trust_the_api_server(processes: dict[str, Process]) -> None:
    given_flags = flags(processes["kube-apiserver"])
    client = x509.load_pem_x509_certificate(Path(given_flags["proxy-client-cert-file"]).read_bytes())
    assert client.subject.rfc4514_string() == f"CN={given_flags['requestheader-allowed-names']}"
    client.verify_directly_issued_by(x509.load_pem_x509_certificate(Path(given_flags["requestheader-client-ca-file"]).read_bytes()))


def test_autoscaling_decides_every_five_seconds(processes: dict[str, Process]) -> None:
    assert flags(processes["kube-controller-manager"])["horizontal-pod-autoscaler-sync-period"] == "5s"


def test_a_node_is_leased_for_less_than_it_takes_to_be_given_up(processes: dict[str, Process]) -> None:
    seconds = int(flags(processes["kwok"])["node-lease-duration-seconds"])
    assert 0 < seconds < 50, "none at all, or more than the node monitor's grace period, and every node is lost"


def test_the_scheduler_packs_gpus_and_every_mig_slice_above_all_else() -> None:
    (profile,) = control_plane_programs.scheduler_configuration(Path("kubeconfig"))["profiles"]
    (plugin,) = profile["pluginConfig"]
    strategy = plugin["args"]["scoringStrategy"]
    weights = {each["name"]: each["weight"] for each in strategy["resources"]}
    assert strategy["type"] == "MostAllocated"
    assert weights["nvidia.com/gpu"] == 10
    assert weights["cpu"] == weights["memory"] == 1
    assert weights["nvidia.com/mig-3g.40gb"] == 10


def test_every_mig_profile_of_the_catalogue_is_packed() -> None:
    from headway.contract.accelerators import GPUS

    (profile,) = control_plane_programs.scheduler_configuration(Path("kubeconfig"))["profiles"]
    packed = {each["name"] for each in profile["pluginConfig"][0]["args"]["scoringStrategy"]["resources"]}
    assert {mig.resource for gpu in GPUS.values() for mig in gpu.mig} <= packed


def test_the_kubeconfig_stands_alone_and_verifies_its_server(site: control_plane_programs.ControlPlaneSite) -> None:
    who = control_plane_programs.identities(site.folder / "pki")
    document = yaml.safe_load(control_plane_programs.kubeconfig(site.server, who.cluster, who.admin, "sandbox"))
    (cluster,), (user,) = document["clusters"], document["users"]
    assert "insecure-skip-tls-verify" not in cluster["cluster"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:20002"
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    assert certificate.subject.rfc4514_string() == "CN=headway:sandbox:admin,O=system:masters"


def test_certificates_are_made_once_and_are_private(tmp_path: Path) -> None:
    first = control_plane_programs.identities(tmp_path)
    content = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert control_plane_programs.identities(tmp_path) == first
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == content
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_key_whose_certificate_was_never_written_is_made_anew(tmp_path: Path) -> None:
    """Killed between the two files: the key alone is worth nothing, and a pair that does not match would be worse."""
    ca = authority(tmp_path, "ca")
    pair = issue(tmp_path, "server", Subject(common_name="server", hosts=("localhost",)), ca)
    pair.certificate.unlink()
    issue(tmp_path, "server", Subject(common_name="server", hosts=("localhost",)), ca)
    certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pair.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert certificate.public_key() == key.public_key()


@pytest.mark.parametrize("year", [2021, 2026, 2048])
def test_a_wrong_clock_does_not_invalidate_a_certificate(tmp_path: Path, year: int) -> None:
    certificate = x509.load_pem_x509_certificate(authority(tmp_path, "ca").certificate.read_bytes())
    assert certificate.not_valid_before_utc < datetime(year, 6, 1, tzinfo=UTC) < certificate.not_valid_after_utc


def test_a_certificate_that_only_a_client_shows_cannot_serve(tmp_path: Path) -> None:
    pair = issue(tmp_path, "admin", Subject(common_name="admin"), authority(tmp_path, "ca"))
    usage = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert x509.ExtendedKeyUsageOID.CLIENT_AUTH in usage
    assert x509.ExtendedKeyUsageOID.SERVER_AUTH not in usage


def test_a_node_without_room_for_pods_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity has no `pods`"):
        node_manifest("n", labels={}, taints=[], capacity={"cpu": "4"})


def test_a_node_offers_its_capacity_less_what_is_reserved() -> None:
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    node = node_manifest(
        "n", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}], capacity=capacity, reserved={"cpu": "95"}
    )
    assert node["status"]["capacity"] == capacity
    assert node["status"]["allocatable"] == {**capacity, "cpu": "95"}
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["spec"] == {"taints": [{"key": "k", "effect": "NoSchedule"}]}


def test_stages_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="pod-ready"):
        stages.compose([READY_STAGE], [READY_STAGE])


def test_a_pod_may_delay_its_readiness_or_leave_it_to_others() -> None:
    (stage,) = stages.compose([READY_STAGE], [])
    assert READY_DELAY in stage["spec"]["delay"]["durationFrom"]["expressionFrom"]
    (expression,) = stage["spec"]["selector"]["matchExpressions"]
    assert expression == {"key": '.metadata.annotations["kwok.x-k8s.io/status"]', "operator": "NotIn", "values": ["custom"]}
    assert READY_STAGE["spec"]["selector"]["matchExpressions"] == [], "what was given is not changed"


def test_no_stage_of_ours_uses_what_kwok_fails_on() -> None:
    ours = manifests.read(sorted(stages.OURS.glob("*.yaml")))
    assert len(ours) == len([*stages.OURS.glob("*.yaml")])
    for stage in ours:
        for expression in stage["spec"]["selector"]["matchExpressions"]:
            assert "cel" not in expression, f"{stage['metadata']['name']}: kwok 0.8 cannot compile CEL on typed objects"


def test_a_bare_equals_sign_is_a_string_as_kubernetes_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "crd.yaml"
    path.write_text("enum:\n- =\n- '!='\n---\n---\nkind: Other\n")
    assert manifests.read([path]) == [{"enum": ["=", "!="]}, {"kind": "Other"}]


def test_only_a_full_disk_is_told_as_one() -> None:
    with pytest.raises(UserError, match="The disk filled up while writing"), disk.telling_when_full("writing"):
        raise OSError(28, "No space left on device")
    with pytest.raises(PermissionError), disk.telling_when_full("writing"):
        raise PermissionError(13, "Permission denied")


@given(name=st.text(st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), max_size=15), started=st.integers(0, 2**63))
def test_whatever_a_process_calls_itself_its_start_is_read(name: str, started: int) -> None:
    fields = ["S", "1", "42", *("0" for _ in range(16)), str(started)]
    assert linux.parse_stat(f"7 ({name}) {' '.join(fields)} 0").started == started


@given(
    taken=st.sets(st.integers(ports.FIRST, ports.LAST), max_size=50),
    busy=st.sets(st.integers(ports.FIRST, ports.LAST), max_size=50),
    seed=st.integers(),
)
def test_a_chosen_port_is_nobody_elses(taken: set[int], busy: set[int], seed: int) -> None:
    port = ports.choose(taken, lambda port: port not in busy, Random(seed))
    assert port not in taken | busy
    assert ports.FIRST <= port < ports.LAST
