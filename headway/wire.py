"""Every name that two programs must agree on: what one of them writes into a request, an object or a store and another one looks for.

Both sides import the name from here, so that they cannot drift apart. Scripts that run inside containers cannot import; they repeat names, and
tests hold them to these. A name whose value changes breaks what is deployed: objects keep the old one until they are updated.
"""

PREFIX = "platform.io"

# Labels of Kubernetes objects and tags of AWS resources ---------------------------------------------------------------------------

TENANT = f"{PREFIX}/tenant"
MODEL = f"{PREFIX}/model"
RELEASE = f"{PREFIX}/release"
ARM = f"{PREFIX}/arm"
"""Label of pods: which part their release plays. In selectors too: the baseline is the stable release a second time."""
POOL = f"{PREFIX}/pool"
ACCELERATOR = f"{PREFIX}/accelerator"
"""Label of GPU nodes, and of no others: the kind of GPU."""
ENVIRONMENT = f"{PREFIX}/environment"
WORKLOAD_CLASS = f"{PREFIX}/class"
SYSTEM_NODES = ("workload", "system")
"""Label of the nodes without GPUs, where everything runs that needs none, and its value."""
ROUTING = f"{PREFIX}/routing"
"""How the gateway divides the requests to a Service's endpoints, where it is not by their load alone: `endpoint_picker`."""
RUNTIME = f"{PREFIX}/runtime"
GPU_MEMORY = f"{PREFIX}/gpu-memory"
"""Annotation of pods: GPU memory of the envelope, for alerts, the memory gate and admission."""
QUARANTINE = f"{PREFIX}/quarantine"
"""Taint and annotation of a node that is set apart; no workload may tolerate it."""
MIG_TAINT = f"{PREFIX}/mig-layout"
"""Taint of a node that is still to be cut by MIG; the loop of node health takes it off. The Cluster Autoscaler is told of it (`--startup-taint`:
`IsStartupTaint` in its `utils/taints/taints.go`, 1.35.2): it takes the node for one that starts, and plans nodes to come without it. The prefix
that it knows by itself lies below kubernetes.io, which EKS keeps to itself (alphagov/govuk-infrastructure#1264, of taints)."""
MIG_CONFIG, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
"""Labels of NVIDIA's MIG manager: the layout that is asked for, and how far it is (NVIDIA/mig-parted, `pkg/mig/reconfigure`)."""
MIG_STARTUP_SECONDS = 1800
"""How long after it has joined a node may take until it is cut. The autoscaler waits as long before it makes another one in its place."""
RECORDED = f"{PREFIX}/recorded"
"""Label of the ConfigMap that stands for a chart where charts are recorded and not installed."""
RECORDED_CHART = f"{RECORDED}=helm-release"
"""Selects these ConfigMaps."""

PART_OF = "headway"

# Annotations of a model's route ---------------------------------------------------------------------------------------------------

WATCHED_UNTIL = f"{PREFIX}/watched-until"
"""Until when the driver of a release has promised to look. Past that, the release guard acts."""
SAFE_RELEASE = f"{PREFIX}/safe-release"
"""The release that the release guard then sends all traffic to."""

# Entries of a model's route -------------------------------------------------------------------------------------------------------

SPLIT_ROUTE = "split"
"""Leads an experiment's users, whom the gateway has marked; it comes first and has no weights. Without it all get the stable version."""
WEIGHTS_ROUTE = "weights"
"""Divides users' requests by weight."""
GRPC_SUFFIX = "-grpc"
"""Of the name of a route for gRPC; beside it stands the same route for HTTP."""

# Containers -----------------------------------------------------------------------------------------------------------------------

RELAY_PORT = 8002
"""Where the metrics of a server are found that has no port of its own for them: Triton's port, so that all are alike."""
SERVER_CONTAINER = "server"
"""Of a replica: the one that serves the model, and answers golden requests."""

# Headers of requests and answers --------------------------------------------------------------------------------------------------

RELEASE_HEADER = "x-model-release"
"""On the way in, and only from inside the mesh: which release must answer. On the way out: which one did."""
CLASS_HEADER = "x-request-class"
"""The request's class, which a replica's own proxy finds by the size of the body, whatever the client sent."""
EXPERIMENT_HEADER = "x-experiment"
"""Set by the gateway on requests of users that an experiment gives the new version; holds the experiment's name."""
DEGRADE_HEADER = "x-degrade"
"""Set by the gateway while a model is overloaded; holds the model's name."""
DEGRADED_HEADER = "x-degraded"
"""Of an answer: the overloaded model in whose place a fallback answered."""
PICKED_HEADER = "x-model-endpoint"
"""At the gateway only, of a service with an endpoint picker: which endpoint was picked, `ip:port` in base64. What a client sends under this
name is dropped there."""
PRIORITY_HEADER = "x-request-priority"
"""Set by the gateway from the caller's token; what a client sends under this name is dropped there."""
USER_HEADER = "x-user-id"
"""Set by the gateway from the caller's token: who calls."""

# Labels of metrics ----------------------------------------------------------------------------------------------------------------

CLASS_TAG = "request_class"
"""The mesh's counters carry the request's class under this name."""
STREAM_TIMES = "headway_replica"
"""How the names begin of what replicas' proxies measure of streams of tokens; for Prometheus after `envoy_`."""
FIRST_TOKEN, NEXT_TOKEN = "first_token_milliseconds", "next_token_microseconds"
"""From the request to the first token; on the average from each token to the next."""
BROKEN_STREAMS = "broken_streams"
"""Whose server said in the middle that it had failed."""
GATEWAY_STATISTICS = "headway"
"""How the names begin of what the gateway's proxies measure by `tenant` and `model`; for Prometheus after `envoy_`."""
WORKED_REQUESTS, WORKED_BYTES, WORKED_ATTEMPTS = "worked_requests", "worked_bytes", "worked_attempts"
"""Of requests that no 4xx turned away: how many, the bytes of their bodies, and how often replicas were asked for them."""
REPEATED_REQUESTS = "repeated_requests"
"""Of which their callers say that they ask again."""
DOOR = "door"
"""What the gateway's proxies call the filter that bounds connections; in the names of its statistics."""

# Audiences of tokens --------------------------------------------------------------------------------------------------------------

ARTIFACT_CACHE_AUDIENCE = "artifact-cache"
"""The artifact cache takes tokens for this audience and no others."""

# Namespaces -----------------------------------------------------------------------------------------------------------------------

ARTIFACT_CACHE_NAMESPACE = "artifact-cache"
"""Holds the stores that keep artifacts on GPU nodes: the one reader of all tenants' artifacts."""
GATEWAY_NAMESPACE = "istio-ingress"
MESH_NAMESPACE = "istio-system"
RATE_LIMIT_NAMESPACE = "rate-limit"
"""Holds the limiter that the gateway's proxies ask."""
WARM_CAPACITY_NAMESPACE = "warm-capacity"
"""Holds placeholders, which serve no model and give way to any pod."""

# The mesh -------------------------------------------------------------------------------------------------------------------------

SAMPLES_PROVIDER = "otel-samples"
"""What the mesh calls the place to which replicas' proxies write samples of requests."""
COLLECTOR = "otel-collector"
"""The Service of namespace `monitoring` to which every proxy tells what became of a request."""

# Dashboards -----------------------------------------------------------------------------------------------------------------------

TRAIL = "headway-trail"
"""The dashboard of requests, logs and causes, by its uid."""

# The loops that run in the cluster ------------------------------------------------------------------------------------------------

ACTIVATOR_NAMESPACE = "activator"
WAITING_REQUESTS = "headway_activator_waiting_requests"
"""Requests to a service without a replica, by `tenant` and `model`."""
RELEASE_GUARD_LEASE = "headway-release-guard"
"""In each tenant's namespace; no release begins without it."""
ENDPOINT_PICKER_NAMESPACE = "endpoint-picker"
DIAGNOSIS_NAMESPACE = "diagnosis"
"""Holds the loop that Alertmanager asks why an alert fires."""
DIAGNOSIS_PORT = 8080
RELEASE_STATE = "headway_release_state"
"""Of that loop's series: 1 while the release under way, by `tenant`, `model` and `release`, is in a `state`."""
BURN_ALERT = "SloBurnRate"
"""The alert of a promise whose budget burns too fast."""
CAUSE_ALERT, CAUSE_SEVERITY = "AlertExplained", "cause"
"""What that loop gives Alertmanager: why another alert fires. By its severity it is routed."""
CAUSE_URGENCY = "explains"
"""Label of that alert: the severity of the most urgent alert that it explains, by which it reaches the same people."""
CAUSE_GROUP = ("alertname", "cause", "place")
"""Labels of that alert that are equal for one cause, whatever it hurts: what has them is one message."""
EVALUATION_NAMESPACE = "evaluation"
"""Holds the loop that asks versions that serve; tenants' roles name its service account, which is called the same."""
NODE_HEALTH_NAMESPACE = "node-health"
NODE_HEALTH_LEASE = "node-health"
NODE_HEALTH_SETTINGS = "node-health"
"""The ConfigMap in which the platform layer says what the loop must know."""
NODE_HEALTH_POOLS_KEY = "pools.json"
NODE_HEALTH_IMAGE_KEY = "diagnosticImage"
ACCELERATOR_READY = "AcceleratedHardwareReady"
"""Condition of a node that EKS's node monitoring agent keeps (EKS user guide, "Node health issues")."""

# Field managers -------------------------------------------------------------------------------------------------------------------

RELEASE_FIELD_MANAGER = "headway-release"
NODE_HEALTH_FIELD_MANAGER = "headway-node-health"

# Commands and variables -----------------------------------------------------------------------------------------------------------

ARTIFACT_CACHE_COMMAND = "artifact-cache"
"""The command of `headway` that runs on nodes."""
ENDPOINT_PICKER_COMMAND = "endpoint-picker"
"""The command of `headway` that names an engine for each prompt."""
LEDGER_VARIABLE = "HEADWAY_LEDGER"
"""Environment variable with the address of the release ledger."""
WITNESS_VARIABLE = "HEADWAY_WITNESS"
"""Environment variable with the folder of that ledger's witness, where an environment runs programs on one machine."""

# Services of the platform that are asked through the API server -----------------------------------------------------------------------

MONITORING_NAMESPACE = "monitoring"
PROMETHEUS_PROXIED = tuple(f"kube-prometheus-stack-prometheus-{replica}:9090" for replica in range(2))
"""One Service a replica, `name:port` as the path of the API server's proxy has it and as roles must repeat it, letter by letter. A
Service over both would answer each question from either, and their counters were not read at the same moments."""
LOKI_PROXIED = ("loki-gateway:80",)
ALERTMANAGER_PROXIED = tuple(f"kube-prometheus-stack-alertmanager-{replica}:9093" for replica in range(2))

# What layers hand over -----------------------------------------------------------------------------------------------------------

ARTIFACT_BUCKET_OUTPUT = "artifact_bucket"
LEDGER_BUCKET_OUTPUT = "ledger_bucket"
TELEMETRY_BUCKET_OUTPUT = "telemetry_bucket"
PROMETHEUS_ADDRESS_OUTPUT = "prometheus_address"
KUBECONFIG_OUTPUT = "kubeconfig"


def handover_path(environment: str) -> str:
    """Where the layers of an environment publish what others need of them: the path of SSM parameters named by layer."""
    return f"/headway/{environment}/layers"


def witness_path(environment: str) -> str:
    """Where the witnesses of an environment's ledger are: the path of SSM parameters named by tenant and model."""
    return f"/headway/{environment}/witness"


# Places ---------------------------------------------------------------------------------------------------------------------------

LEDGER_VERIFICATIONS = "verifications/"
"""Prefix in the ledger's bucket: what `headway verify` saw, one document a run, written once."""
LEDGER_LEASES = "leases/"
"""Prefix in the ledger's bucket: who drives each service's releases (ADR 23), renewed in place. Events and releases are written once."""
SCRIPTS_FOLDER = "/etc/headway"
"""In the containers of a model server: the scripts and settings that its ConfigMap holds."""
FETCH_SETTINGS = "fetch.json"
"""The file of a release's ConfigMap that says what its replicas fetch."""
ARTIFACTS_PATH = "/artifacts/"
"""The artifact cache serves each object below this path, under its SHA-256."""

PINS_FILE = "components/pins.json"
"""In the checkout: digests of charts and images as their makers answered first, written by `headway mirror --pin`."""

# Policies -------------------------------------------------------------------------------------------------------------------------

POLICY_GATE = "rules-are-evaluated"
"""The policy that says of every rule what it could not evaluate."""
