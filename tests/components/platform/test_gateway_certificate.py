"""The gateway's certificate by cert-manager: who issues it, for which names, and what the orderer may do in DNS."""

from typing import Any

from components.addons import cert_manager
from components.platform import gateway_certificate
from components.versions import CERT_MANAGER
from headway.wire import GATEWAY_NAMESPACE

NAMES = ("*.vision.models.example.com", "*.assist.models.example.com")


def made() -> dict[str, Any]:
    issuer = gateway_certificate.authority("models-ca")
    return {each.kind: each.body for each in gateway_certificate.manifests(secret="models-tls", names=NAMES, issuer=issuer)}


def test_the_certificate_holds_a_wildcard_for_each_tenant() -> None:
    spec = made()["Certificate"]["spec"]
    assert (spec["secretName"], spec["dnsNames"]) == ("models-tls", sorted(NAMES))


def test_only_the_gateways_namespace_can_order_by_its_issuer() -> None:
    found = made()
    assert {each["metadata"]["namespace"] for each in found.values()} == {GATEWAY_NAMESPACE}
    assert found["Certificate"]["spec"]["issuerRef"]["kind"] == "Issuer"


def test_a_renewed_certificate_has_a_new_key() -> None:
    assert made()["Certificate"]["spec"]["privateKey"]["rotationPolicy"] == "Always"


def test_a_wildcard_is_proven_by_a_record_and_not_by_a_file() -> None:
    spec = gateway_certificate.acme(server="https://acme.test/directory", email="a@b.test", zone="Z0", region="us-east-1")
    assert [list(solver) for solver in spec["acme"]["solvers"]] == [["dns01"]]


def test_the_orderer_may_write_the_proofs_of_its_names_and_nothing_else() -> None:
    prove, see, _ = cert_manager.permissions("Z0123", NAMES)
    assert list(prove.resources) == list(see.resources) == ["arn:aws:route53:::hostedzone/Z0123"]
    assert prove.conditions["ForAllValues:StringEquals"] == {
        "route53:ChangeResourceRecordSetsNormalizedRecordNames": [
            "_acme-challenge.assist.models.example.com",
            "_acme-challenge.vision.models.example.com",
        ],
        "route53:ChangeResourceRecordSetsRecordTypes": ["TXT"],
    }


def test_certificates_outlive_the_chart() -> None:
    assert cert_manager.values()["crds"] == {"enabled": True, "keep": True}


def test_every_image_of_the_chart_is_of_its_own_version() -> None:
    assert {image.partition("@")[0].rpartition(":")[2] for image in CERT_MANAGER.images} == {CERT_MANAGER.version}
