"""Every version the platform installs, in one data file: cluster, node images, EKS add-ons, charts and the images those
pull.

Data only. A row was read at its source on the date in `READ`; nothing here floats, and an upgrade is a diff of this
file. The trap: these rows are tested against each other, not one by one (a chart that supports Kubernetes N may
break on N+1), so move them in one change.
"""

from dataclasses import dataclass
from datetime import date

READ = "2026-11"
"""When the rows were last read at their sources (chart repositories, AMI changelog), in copies from 2026-08 or later."""


@dataclass(frozen=True, kw_only=True)
class HelmChart:
    """A Helm chart of a platform add-on. `repository` is empty for a chart named by an `oci://` reference.

    `images` are what its pods pull with the values used here, read from the rendered chart, with the digest where a
    public project states it as that of this tag: `headway mirror --push` copies that and nothing else. No project states
    one for Istio's, the Load Balancer Controller's, the GPU Operator's own and the webhooks' certificate maker's; of node
    exporter's and node feature discovery's it is not sure; nginx's tag moves. `headway mirror --list` names them, and
    `--pin` writes down what each was when it was first asked for.
    """

    chart: str
    repository: str
    version: str
    images: tuple[str, ...]
    digest: str | None = None
    """SHA-256 of the package, as the index of its repository says (in the charts' source trees: branch gh-pages, or
    docs/). None where no public source tree holds that index: then `headway mirror --pin`, run by whoever can reach its
    repository, writes down the first answer.
    """


@dataclass(frozen=True, kw_only=True)
class VersionSupport:
    """Until when whoever makes it mends a version. `ends` is None where the end is an event and no date."""

    what: str
    version: str
    ends: date | None
    then: str
    """What follows from the end, or ends it where there is no date."""
    source: str
    charts: tuple[str, ...] = ()
    """What brings it. Every chart is in a row."""


KUBERNETES = "1.36"
"""`SUPPORT` says until when. In the stated range of Istio 1.31 (1.32 to 1.36); KEDA states 1.33 to 1.35 for 2.20 and
nothing yet for 2.21, and the sandbox runs it against an API server of 1.36. EKS has 1.37 too, which no Istio supports.
"""

NODE_RELEASES = {"1.36.2-20260714": "580.159.03"}
"""AMI releases that pools may pin, with the NVIDIA driver of the accelerated one, which nothing can change on it.

The newest whose driver could be read in AWS's own changelog. There are later ones (1.36.4-20261003): read on the
project's page of releases which driver, and add a row. v20260423 put device plugins into a crash loop
(awslabs/amazon-eks-ami#2706): a new release goes to one pool first.
"""

CACHED_REGISTRIES = {"ecr-public": "public.ecr.aws", "k8s": "registry.k8s.io", "quay": "quay.io"}
"""Public registries that ECR can cache without credentials, by the short name of the cache. NVIDIA's
it cannot, and Docker Hub, where Istio's are, asks for some.
"""

ADDONS = {
    "aws-ebs-csi-driver": "v1.66.0-eksbuild.1",
    "coredns": "v1.14.7-eksbuild.10",
    "eks-node-monitoring-agent": "v1.7.2-eksbuild.1",
    "eks-pod-identity-agent": "v1.4.0-eksbuild.3",
    "kube-proxy": "v1.36.0-eksbuild.25",
    "metrics-server": "v0.9.0-eksbuild.11",
    "vpc-cni": "v1.23.1-eksbuild.1",
}
"""EKS add-ons by name, as public projects record what EKS offered them for Kubernetes 1.36 in 2026-10; each in more
than one, the monitoring agent's in its chart too. What an account is offered: `headway doctor`, or `aws eks
describe-addon-versions --kubernetes-version 1.36`.

vpc-cni: with v1.21.1 a new cluster could come up with every packet refused (aws/aws-network-policy-agent#553, closed;
that agent was v1.3.2, this one is v1.4.2). v1.23.2 is offered too; its changes could not be read. The way back from
v1.23 is v1.22.4 and no further (its release notes).
"""

PAUSE_IMAGE = "registry.k8s.io/pause:3.10.1@sha256:278fb9dbcca9518083ad1e11276933a2e96f23de604a3a08cc3c80002767d24c"
"""Does nothing, in 300 KB: the container of placeholders."""

DIAGNOSTIC_IMAGE = "nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubi10@sha256:92080d86d04c265f7fc0b8e1cd95dff94d3ab57de6a6474c3c483e4c2ada5dea"
"""NVIDIA's diagnostic of GPUs, of the GPU Operator's own release (bundle of NVIDIA/gpu-operator v26.7.0, like the
digests below).
"""

LIMITER_IMAGE = "docker.io/envoyproxy/ratelimit:1e50889b@sha256:5bb3741fd6709bab1d498eae1a5807faa2113b712dfb236fb76c04a00871ffc9"
"""Envoy's rate limit service, which has no releases: the commit that goes with Envoy 1.38, whose API for it the proxies speak."""

VALKEY_IMAGE = "docker.io/valkey/valkey:9.1.0-alpine@sha256:a35428eba9043cc0b79dbe54100f0c92784f2de00ad09b01182bfb1c5c83d1bd"
"""Holds the limiter's counts. Valkey and not Redis, whose newer licences are no open ones."""

OWN_IMAGES = {
    DIAGNOSTIC_IMAGE: "node diagnostics",
    LIMITER_IMAGE: "rate limits",
    PAUSE_IMAGE: "placeholders",
    VALKEY_IMAGE: "rate limits",
}
"""Images that no chart brings, and what uses each."""

_ISTIO = "https://blob.istio.io/istio-release/charts"
"""Where Istio publishes from 1.31 on; its former registry and bucket are switched off in 2026-12 (its upgrade notes)."""
ISTIO_IMAGES = "docker.io/istio"
"""Said in values and not left to the charts, because admission knows the mesh's containers by it."""
_PROMETHEUS = "https://prometheus-community.github.io/helm-charts"
_GRAFANA = "https://grafana-community.github.io/helm-charts"

GPU_OPERATOR = HelmChart(
    chart="gpu-operator",
    repository="https://helm.ngc.nvidia.com/nvidia",
    version="v26.7.0",
    # Its index is in no source tree; one public project that compares the package with a digest states this one.
    digest="6d1b282d74288be206c66dfe49073b7c85c209e92826c27f6507429055e2e102",
    images=(
        "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0@sha256:cab2cf9deafc9602da69d0832a82958a7687f22f4a2f19674099dc9a5c4ea8e2",
        "nvcr.io/nvidia/gpu-operator:v26.7.0",
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0@sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.0-4.8.3-distroless@sha256:613ab03c11d442fd960ff515f547e9921537454a712d08160bc8f677f89f1c35",
        "registry.k8s.io/nfd/node-feature-discovery:v0.19.0",
    ),
)

ISTIO_BASE = HelmChart(chart="base", repository=_ISTIO, version="1.31.4", images=())
ISTIO_CNI = HelmChart(chart="cni", repository=_ISTIO, version="1.31.4", images=(f"{ISTIO_IMAGES}/install-cni:1.31.4",))
ISTIOD = HelmChart(chart="istiod", repository=_ISTIO, version="1.31.4", images=(f"{ISTIO_IMAGES}/pilot:1.31.4",))
ISTIO_GATEWAY = HelmChart(chart="gateway", repository=_ISTIO, version="1.31.4", images=(f"{ISTIO_IMAGES}/proxyv2:1.31.4",))

KEDA = HelmChart(
    chart="keda",
    repository="https://kedacore.github.io/charts",
    version="2.20.2",
    digest="db60b1fa60f0565fefa4ce2f87e855b6a8854363ee82962fbe28a12a70d64c4c",
    images=(
        "ghcr.io/kedacore/keda:2.20.2@sha256:fe74c7b8849586a67ad2201bcb89e7f5ac221ff90399ecaa8fd28427f1ef11e6",
        "ghcr.io/kedacore/keda-admission-webhooks:2.20.2@sha256:41f74102aba7959c6e8d08b433ab8a5fd6cae7c5646c78f7fe3de40a52df3439",
        "ghcr.io/kedacore/keda-metrics-apiserver:2.20.2@sha256:27286536a8a775aeeee37a7e343f8ecebb27ebf680ee1181a4f99e82eefb253b",
    ),
)

CERT_MANAGER = HelmChart(
    chart="cert-manager",
    repository="https://charts.jetstack.io",
    version="v1.21.2",
    # Its index is in no source tree; many public projects that compare the package with a digest state this one.
    digest="73a56e1728edd6c99f1f31082618c3259d279a76b7ebd3d4bdc5475c2442d34a",
    images=(
        "quay.io/jetstack/cert-manager-cainjector:v1.21.2@sha256:c85268c64f2e0e76684bf5fe8906caff34b82523561c6affe0fae3546bd87562",
        "quay.io/jetstack/cert-manager-controller:v1.21.2@sha256:70f532fd9cfde0b09d55687200942399d89838bc2d5d5b45152eb799a15912b8",
        "quay.io/jetstack/cert-manager-startupapicheck:v1.21.2@sha256:46e75b6866359ffb5d82624f41e3ed1c70b2994982702ced547ce5edb418a8f5",
        "quay.io/jetstack/cert-manager-webhook:v1.21.2@sha256:a60e2dac46dbb8a7f3df95c54ce941012f54c2fe022f0ee55aaa1ab40ed957ae",
    ),
)

CLUSTER_AUTOSCALER = HelmChart(
    chart="cluster-autoscaler",
    repository="https://kubernetes.github.io/autoscaler",
    version="9.59.0",
    digest="90276dafe65cf5d4328ef8313baf6cfb9d130683e0c9f3c28a03b4d8a9ed8f6e",
    images=(
        "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.2@sha256:aac369dc283927a623deb1af54696efcc722ae79255aa07788422e495bab887d",
    ),
)

LOAD_BALANCER_CONTROLLER = HelmChart(
    chart="aws-load-balancer-controller",
    repository="https://aws.github.io/eks-charts",
    version="3.5.0",
    digest="45051f634b33e10baccb3354d0681b7de787c60445e599fa276e0c9aedd4ccd5",
    images=("public.ecr.aws/eks/aws-load-balancer-controller:v3.5.0",),
)

PROMETHEUS_DEFINITIONS = HelmChart(chart="prometheus-operator-crds", repository=_PROMETHEUS, version="31.0.1", images=())
"""The definitions of the operator that the stack brings (v0.93.1, both): move them together, these first."""

PROMETHEUS_TAG, PROMETHEUS_DIGEST = "v3.13.2-distroless", "64f71bb84e03c855948418b0fc5dea53e9543d8e3fc9931598f583805507f05e"
"""Of the version with long-term support; the chart brings 3.14, whose support lasted six weeks. Several public projects state this digest."""

PROMETHEUS_STACK = HelmChart(
    chart="kube-prometheus-stack",
    repository=_PROMETHEUS,
    version="88.5.3",
    images=(
        "docker.io/grafana/grafana:13.2.0@sha256:3fd54ae1214669f8355f065ec9f6445d5279a3d77095ab048ca045685272429b",
        "ghcr.io/jkroepke/kube-webhook-certgen:1.8.7",
        "quay.io/kiwigrid/k8s-sidecar:2.10.1@sha256:7eac5c4fed714a18d038fc9fea57d8744d113367935dac0ea4eb6a87cef704a3",
        "quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1@sha256:428f088fe6fe07ab138bda92113664b04848a1dc408e4d3680a60ecdb55d1a65",
        "quay.io/prometheus-operator/prometheus-operator:v0.93.1@sha256:e52bb28fd41c98dd407c7a8cba8bdcfe7eabd7447e250afaf1fe7bb816dedbff",
        "quay.io/prometheus/alertmanager:v0.34.0@sha256:690c7b525f4367aa91f73e2f91c632206d32e97c6384bdbf2fb7a861b420340d",
        "quay.io/prometheus/node-exporter:v1.12.1-distroless",
        f"quay.io/prometheus/prometheus:{PROMETHEUS_TAG}@sha256:{PROMETHEUS_DIGEST}",
        "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.20.0@sha256:42cfe3723a5f058171c627537fb57a3ea0f26e4380fa18555a95cb1a1b4cfc5b",
    ),
)
LOKI = HelmChart(
    chart="loki",
    repository=_GRAFANA,
    version="18.11.0",
    digest="d4d99424d197e1460878093c9fced02346669ab0698a0dca7c575ab76fff7aeb",
    images=(
        "docker.io/grafana/loki:3.7.6@sha256:efd47c67f9bac88ca29bcf8cb997d9ab29d1848bd0aff579282295542a745952",
        "docker.io/nginxinc/nginx-unprivileged:1.31-alpine",
        "ghcr.io/jkroepke/access-log-exporter:0.4.11@sha256:371463b58e7947c0769480186d915792d57809536f2b3539b9154ec6d2a2ba11",
    ),
)
TEMPO = HelmChart(
    chart="tempo",
    repository=_GRAFANA,
    version="2.2.4",
    digest="5f3f4b29c4487b9c27715c18bc6c7b0889712b14075d97705f9b151a51725f68",
    images=("docker.io/grafana/tempo:2.10.8@sha256:f0561deb1c68ec44d6e6e7e4487f30106c4e5e768642077695b37958b105812a",),
)
OTEL_COLLECTOR = HelmChart(
    chart="opentelemetry-collector",
    repository="https://open-telemetry.github.io/opentelemetry-helm-charts",
    version="0.170.0",
    digest="ed140b332233075c7fd15eaebba571fdf100926f08c0a5a274c7b32895315137",
    images=(
        "docker.io/otel/opentelemetry-collector-contrib:0.158.0@sha256:c5918f78992ee73b0d6f0e599423ac5ec52dd5d9726733114d6eca53d5a32ed5",
    ),
)

CHARTS = tuple(
    sorted(
        (
            CERT_MANAGER,
            CLUSTER_AUTOSCALER,
            GPU_OPERATOR,
            ISTIOD,
            ISTIO_BASE,
            ISTIO_CNI,
            ISTIO_GATEWAY,
            KEDA,
            LOAD_BALANCER_CONTROLLER,
            LOKI,
            OTEL_COLLECTOR,
            PROMETHEUS_DEFINITIONS,
            PROMETHEUS_STACK,
            TEMPO,
        ),
        key=lambda chart: chart.chart,
    )
)

SUPPORT = (
    VersionSupport(
        what="Kubernetes on EKS",
        version=KUBERNETES,
        ends=date(2027, 8, 2),
        then="EKS charges six times as much for a control plane, or upgrades it by itself",
        source="EKS user guide, Kubernetes release calendar (by endoflife.date, products/amazon-eks.md)",
    ),
    VersionSupport(
        what="Istio",
        version=ISTIOD.version,
        # The table expects six months from a release, and 1.31 came in 2026-08; the policy is six weeks beyond 1.33.
        ends=date(2027, 2, 28),
        then="Holes in the gateway and in every proxy are no longer mended in this minor version",
        source="Istio, Supported Releases (support policy, and istio/istio.io, data/compatibility/supportStatus.yml)",
        charts=("base", "cni", "gateway", "istiod"),
    ),
    VersionSupport(
        what="NVIDIA driver",
        version=min(NODE_RELEASES.values()),
        ends=date(2028, 6, 30),
        then="The branch gets no more fixes; contracts are checked against the driver of another one",
        source="NVIDIA Data Center Drivers, Supported Drivers and CUDA Toolkit Versions (R580, long-term support)",
    ),
    VersionSupport(
        what="GPU Operator",
        version=GPU_OPERATOR.version,
        ends=None,
        then="Supported until the next major version, deprecated until the one after it; neither has a date",
        source="NVIDIA GPU Operator, Platform Support, life cycle",
        charts=("gpu-operator",),
    ),
    VersionSupport(
        what="Prometheus",
        version=PROMETHEUS_TAG,
        ends=date(2027, 7, 31),
        then="Holes and faults in it are mended in later versions only",
        source="Prometheus, Long-Term Support (by endoflife.date, products/prometheus.md)",
        charts=("kube-prometheus-stack",),
    ),
    VersionSupport(
        what="Grafana",
        version="13.2",
        ends=date(2027, 5, 18),
        then="Holes in the dashboards' server are no longer mended in this minor version",
        source="Grafana, When to upgrade: nine months from a minor release (by endoflife.date, products/grafana.md)",
        charts=("kube-prometheus-stack",),
    ),
    VersionSupport(
        what="Prometheus operator",
        version="0.93",
        ends=None,
        then="Every six weeks comes another minor version; older ones are maintained on a best effort basis",
        source="prometheus-operator/prometheus-operator, RELEASE.md",
        charts=("kube-prometheus-stack", "prometheus-operator-crds"),
    ),
    VersionSupport(
        what="cert-manager",
        version=CERT_MANAGER.version,
        ends=None,
        then="Supported until the second minor version after it, which comes about eight months after it",
        source="cert-manager, Supported Releases (by endoflife.date, products/cert-manager.md)",
        charts=("cert-manager",),
    ),
    VersionSupport(
        what="KEDA",
        version=KEDA.version,
        ends=None,
        then="The project gives best-effort support and states no end",
        source="kedacore/governance, SUPPORT.md",
        charts=("keda",),
    ),
    VersionSupport(
        what="Cluster Autoscaler",
        version="v1.35.2",
        ends=None,
        then="Mends go to the newest minor version and the three before it; it is meant for Kubernetes of its own minor version",
        source="kubernetes/autoscaler, cluster-autoscaler/README.md (Releases)",
        charts=("cluster-autoscaler",),
    ),
    VersionSupport(
        what="AWS Load Balancer Controller",
        version=LOAD_BALANCER_CONTROLLER.version,
        ends=None,
        then="AWS mends the latest minor version; no date is stated",
        source="AWS Load Balancer Controller, Support Policy",
        charts=("aws-load-balancer-controller",),
    ),
    VersionSupport(
        what="Loki",
        version="3.7",
        ends=None,
        then="Mended until the second minor version after it, which has no date",
        source="endoflife.date, products/grafana-loki.md; the project's release cadence states no end",
        charts=("loki",),
    ),
    VersionSupport(
        what="Tempo",
        version="2.10",
        ends=date(2027, 4, 26),
        then="The last minor version of 2 gets no more mends; 3 has other storage and other settings",
        source="Grafana Tempo, Recommended versions",
        charts=("tempo",),
    ),
    VersionSupport(
        what="OpenTelemetry Collector",
        version="0.158.0",
        ends=None,
        then="No statement of its project on an end of support was found",
        source="open-telemetry/opentelemetry-collector, looked for in its documentation",
        charts=("opentelemetry-collector",),
    ),
)
"""Until when whoever makes it mends what is installed, or the sentence that nobody says until when."""
