"""Commented starters: a tenant and a model for each runtime, that pass `headway check` as they are.

What only the team can know stands in them as a value that works, with a comment that says to replace it. Digests are all zeros, which
`check` accepts with a warning and nothing else does.
"""

import re

from headway.contract.runtime import Engine

PLACEHOLDER = "0" * 64
"""A digest that names nothing."""

_TENANT = """\
# yaml-language-server: $schema=../../docs/reference/tenant.schema.json
# Who the team is, what it may use, who may call and who may touch it. Every field: docs/reference/contract.md.
contract: tenant/v1
name: {name}
description: What the team does, in a sentence.          # replace
owner: {name}@example.com                                # replace: budget alarms name it
priority: standard                                       # or critical: its pods are the last to yield

runtimes: [triton, vllm, container]                      # what its models may use

# What all models together may use, at their maximum replicas. What is not named is not allowed.
quota:
  gpus: {{l4: 6, h100: 2}}
  gpu_memory: 320Gi
  cpu: 96
  memory: 512Gi
  requests: 500/s
  tokens: 20000/s
  monthly_budget: 20000 USD

# Who vouches for its callers. There is no anonymous use.
issuers:
  - issuer: https://login.example.com/realms/{name}      # replace, all three
    audiences: [{name}]
    jwks_uri: https://login.example.com/realms/{name}/protocol/openid-connect/certs

# Groups of the identity provider.
people:
  deployers: [{name}-engineers]                          # replace: may release
  runners: [{name}-releases]                             # replace: the identity of CI jobs that release
  viewers: []
"""

_HEAD = """\
# yaml-language-server: $schema=../../docs/reference/model.schema.json
# Everything that this model owes its operators. Every field: docs/reference/contract.md. Values marked `replace` are yours to find.
contract: model/v1
name: {name}
description: What it answers, in a sentence.             # replace
owner: {tenant}-engineers                                # replace: shown in alerts
workload_class: {workload}
"""

_TRITON = """\
runtime:
  engine: triton
  image: registry.example.com/nvidia/tritonserver:26.07-py3@sha256:{zeros}    # replace: always by digest
  image_size: 9800Mi                                     # compressed, as the registry says
  minimum_driver: "570.86"
  models:
    - name: {name}                                       # files lie below {name}/1/ in the artifact
      backend: onnxruntime                               # tensorrt, onnxruntime, pytorch, tensorflow, xgboost, python
      max_batch: 8
      activations: 1Gi                                   # replace: measured at the largest shape and batch
      inputs:
        - {{name: input, data_type: FP32, shape: [3, 224, 224]}}    # -1 for what varies; then add max_shape
      outputs:
        - {{name: scores, data_type: FP32, shape: [10]}}

artifact:
  uri: artifacts://{tenant}/{name}/1.0.0/                # in each environment's own bucket; `headway artifact push` writes it, once
  version: 1.0.0
  registry: {{system: mlflow, model: {name}, version: "1"}}
  files:                                                 # every file: headway artifact FOLDER
    - {{path: {name}/1/model.onnx, sha256: {zeros}, size: 100000000B}}
    - {{path: golden/first.json, sha256: {zeros}, size: 600000B}}

# What one replica may use, and the largest request that it must bear within it.
envelope:
  gpu: {{share: whole, accelerator: l4, memory: 6Gi}}
  cpu: 3
  memory: 8Gi
  largest_request:
    body: 2Mi
    timeout: 5s

batching:
  kind: dynamic
  max_delay: 2ms                                         # latency that every request may pay
  max_queue: 64
  queue_timeout: 2s

health:
  startup_budget: 10m
  engine_start: 30s                                      # replace: measured
  warmup: {{requests: 50, p99: 100ms}}                   # at the largest shape, before any user
  golden:                                                # requests with known answers: they prove that it works
    - name: first
      file: golden/first.json                            # in the artifact: a request body as callers send it
      answer: /outputs/0/data
      expect: {{compare: top, index: 0}}                 # exact, near, top, cosine, contains, schema
  liveness: {{interval: 15s, timeout: 5s, failures: 3, no_progress: 60s}}
  drain: 30s

slo:
  - {{signal: availability, objective: 99.9%}}
  - {{signal: latency, quantile: 99%, threshold: 100ms}}

scaling:
  min_replicas: 1
  max_replicas: 2                                        # the quota is charged for these
  capacity: 100/s                                        # replace: what one replica serves within its objectives
  triggers:
    - {{signal: in_flight, target: 8}}
"""

_VLLM = """\
runtime:
  engine: vllm
  image: registry.example.com/vllm/vllm-openai:v0.33.0@sha256:{zeros}    # replace: always by digest
  image_size: 8200Mi                                     # compressed, as the registry says
  minimum_driver: "570.86"
  # replace: from the model's config.json; GPU memory is reckoned with it
  architecture: {{layers: 32, heads: 32, kv_heads: 8, head_dimension: 128, hidden: 4096, vocabulary: 128256}}

artifact:
  uri: artifacts://{tenant}/{name}/1.0.0/                # in each environment's own bucket; `headway artifact push` writes it, once
  version: 1.0.0
  registry: {{system: mlflow, model: {name}, version: "1"}}
  files:                                                 # every file: headway artifact FOLDER
    - {{path: config.json, sha256: {zeros}, size: 900B}}
    - {{path: tokenizer.json, sha256: {zeros}, size: 9000000B}}
    - {{path: model.safetensors, sha256: {zeros}, size: 16060000000B}}

# What one replica may use, and the largest request that it must bear within it.
envelope:
  gpu: {{share: whole, accelerator: h100, memory: 72Gi}}  # count: 2 for tensor parallelism over two
  cpu: 12
  memory: 64Gi
  shared_memory: 8Gi
  largest_request:
    body: 256Ki
    timeout: 2m
    context_tokens: 8192                                 # prompt and answer together
    output_tokens: 1024

batching:
  kind: continuous
  max_sequences: 128
  max_batched_tokens: 8192

health:
  startup_budget: 20m
  engine_start: 180s                                     # replace: measured
  warmup: {{requests: 16, p99: 20s}}                     # at the longest context, before any user
  golden:                                                # requests with known answers: they prove that it works
    - name: first
      request:
        messages: [{{role: user, content: "Name the capital of France in one word."}}]
        max_tokens: 8
        temperature: 0
      answer: /choices/0/message/content
      expect: {{compare: contains, parts: [Paris]}}      # exact, near, top, cosine, contains, schema
  liveness: {{interval: 30s, timeout: 20s, failures: 3, no_progress: 90s}}
  drain: 150s

slo:
  - {{signal: availability, objective: 99.5%}}
  - {{signal: ttft, quantile: 95%, threshold: 800ms}}

scaling:
  min_replicas: 1
  max_replicas: 2                                        # the quota is charged for these
  capacity: 5/s                                          # replace: what one replica serves within its objectives
  token_capacity: 2000/s                                 # replace: tokens it generates meanwhile
  triggers:
    - {{signal: waiting, target: 8}}
    - {{signal: kv_cache_use, target: 80%}}
"""

_CONTAINER = """\
# Any other server in a container. The rest of the contract applies to it as to all others.
runtime:
  engine: container
  image: registry.example.com/{tenant}/{name}:1.0.0@sha256:{zeros}    # replace: always by digest
  image_size: 4Gi                                        # compressed, as the registry says
  minimum_driver: "570.86"
  protocol: http
  port: 8000
  health: /health
  predict: /predict
  metrics: {{path: /metrics, port: 8000}}
  working_memory: 2Gi                                    # replace: GPU memory beside the weights, at the largest request

artifact:
  uri: artifacts://{tenant}/{name}/1.0.0/                # in each environment's own bucket; `headway artifact push` writes it, once
  version: 1.0.0
  registry: {{system: mlflow, model: {name}, version: "1"}}
  files:                                                 # every file: headway artifact FOLDER
    - {{path: model.bin, sha256: {zeros}, size: 100000000B}}

# What one replica may use, and the largest request that it must bear within it.
envelope:
  gpu: {{share: whole, accelerator: l4, memory: 6Gi}}
  cpu: 3
  memory: 8Gi
  largest_request:
    body: 2Mi
    timeout: 5s

batching:
  kind: none
  max_concurrent: 16

health:
  startup_budget: 10m
  engine_start: 30s                                      # replace: measured
  warmup: {{requests: 50, p99: 200ms}}                   # before any user
  golden:                                                # requests with known answers: they prove that it works
    - name: first
      request: {{inputs: [1, 2, 3]}}
      answer: /label
      expect: {{compare: exact, value: ok}}              # exact, near, top, cosine, contains, schema
  liveness: {{interval: 15s, timeout: 5s, failures: 3, no_progress: 60s}}
  drain: 30s

slo:
  - {{signal: availability, objective: 99.9%}}
  - {{signal: latency, quantile: 99%, threshold: 500ms}}

scaling:
  min_replicas: 1
  max_replicas: 2                                        # the quota is charged for these
  capacity: 50/s                                         # replace: what one replica serves within its objectives
  triggers:
    - {{signal: in_flight, target: 8}}
"""

_TAIL = """\
placement:
  isolation: dedicated                                   # mig or shared, when envelope.gpu.share is another

rollout:
  strategy: canary                                       # blue_green, rolling, ab
  mirror: {{share: 50%}}                                 # leave out if requests have side effects

# What gives way under overload: low priority gets 429. A lighter model can take over for others: see `fallback`.
degradation:
  overload_at: 32

data:
  classification: internal                               # public, internal, confidential, personal
  purpose: What it is used for, in a sentence.           # replace; part of every release record
  risk: minimal                                          # EU AI Act: minimal, limited, high
  retention: 30d

observability:
  receiver: {tenant}-oncall                              # replace: the Alertmanager receiver
"""

_BODIES = {Engine.TRITON: _TRITON, Engine.VLLM: _VLLM, Engine.CONTAINER: _CONTAINER}


def stack_starter(tenant: str) -> str:
    """The stack file by which an environment has the tenant."""
    return f"# What this stack deploys stands in tenants/{tenant}/.\nconfig: {{}}\n"


def tenant_starter(name: str) -> str:
    """A tenant contract. `name` must be a legal name."""
    return _aligned(_TENANT.format(name=name))


def model_starter(tenant: str, name: str, engine: Engine) -> str:
    """A model contract for one runtime. Names must be legal."""
    # H100 nodes are packed: a spread-out service would keep several of them half empty.
    workload = (
        "throughput                               # packed densely; latency: spread over zones"
        if engine is Engine.VLLM
        else "latency                                  # people wait for the answer; throughput: packed densely"
    )
    text = _HEAD + "\n" + _BODIES[engine] + "\n" + _TAIL
    return _aligned(text.format(name=name, tenant=tenant, zeros=PLACEHOLDER, workload=workload))


_COMMENT_COLUMN = 57


def _aligned(text: str) -> str:
    """Comments behind values start in one column, where there is room."""
    lines: list[str] = []
    for line in text.splitlines():
        match = re.fullmatch(r"(.*\S) {2,}(# .*)", line)
        lines.append(f"{match[1]:<{_COMMENT_COLUMN - 2}}  {match[2]}" if match else line)
    return "\n".join(lines) + "\n"
