"""How each wall of docs/security.md could be opened by a careless change: for every row, texts of its file and what they become.

Not one deletes a whole wall where a smaller change opens it: a condition that is asked of some instead of all, a phase or a version
that is left out, a comparison that looks at less, an error that is passed over.
"""

from collections.abc import Mapping
from dataclasses import dataclass

RULE = "components/platform/rule.py"
FETCH = "components/model_service/scripts/fetch.py"
SERVED_PATHS = "headway/contract/served_paths.py"


@dataclass(frozen=True, kw_only=True)
class Weakening:
    """`old` stands once in the file. `file`: another one than the row's. `raises`: how the test fails where it asserts that nothing is raised."""

    says: str
    old: str
    new: str
    file: str = ""
    raises: str = ""


def opened(says: str, old: str, new: str = "", file: str = "", raises: str = "") -> Weakening:
    return Weakening(says=says, old=old, new=new, file=file, raises=raises)


WEAKENINGS: Mapping[str, tuple[Weakening, ...]] = {
    "Claim another tenant's host, or route to its servers": (
        opened(
            "one own host among several is enough",
            "object.spec.hosts.all(h, h.endsWith(variables.own)",
            "object.spec.hosts.exists(h, h.endsWith(variables.own)",
        ),
        opened(
            "a public host ends with the tenant's name without a dot",
            "h.endsWith('.' + {_OWN} + '.{host}')",
            "h.endsWith({_OWN} + '.{host}')",
        ),
        opened(
            "a host in the mesh ends with the tenant's name without a dot",
            "f\"'.' + {_OWN} + '.svc.cluster.local'\"",
            "f\"{_OWN} + '.svc.cluster.local'\"",
        ),
        opened("one own server among several is enough", '"r.route.all(d, has(d.destination)', '"r.route.exists(d, has(d.destination)'),
        opened("copies are not looked at", "(!has(r.mirror) || r.mirror.host.endsWith(variables.own)) && "),
        opened(
            "any gateway may be named",
            "(!has(object.spec.gateways) || object.spec.gateways.all(g, g in {",
            "(!has(object.spec.gateways) || object.spec.gateways.exists(g, g in {",
        ),
        opened(
            "destinations of any Service",
            '"object.spec.host.endsWith(variables.own)"',
            "\"object.spec.host.endsWith('.svc.cluster.local')\"",
        ),
        opened("destinations by subsets", "k in ['host', 'trafficPolicy'])", "k in ['host', 'subsets', 'trafficPolicy'])"),
        opened(
            "callers encrypt as they are told",
            "object.spec.trafficPolicy.tls.mode == 'ISTIO_MUTUAL'",
            "object.spec.trafficPolicy.tls.mode != 'DISABLE'",
        ),
        opened("a Service takes the addresses of others", "(!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0) && "),
        opened("a Sidecar lets out whatever mode it says", "object.spec.outboundTrafficPolicy.mode == 'REGISTRY_ONLY' && "),
        opened(
            "KEDA asks queues of the same beginning",
            "t.metadata.queueURL in variables.queues",
            "variables.queues.exists(q, t.metadata.queueURL.startsWith(q))",
        ),
        opened("rules only warn", '"validationActions": ["Deny"]', '"validationActions": ["Warn"]', RULE),
    ),
    "The same on an object that a finalizer keeps": (
        opened(
            "what is being deleted is spared",
            '"expression": f"oldObject == null || {differs}"',
            '"expression": f"oldObject == null || (!has(object.metadata.deletionTimestamp) && ({differs}))"',
        ),
        opened("changes are not looked at", '("CREATE", "UPDATE")', '("CREATE",)'),
        opened("a changed spec is not looked at", '"?metadata.?labels", "?spec", "?data"', '"?metadata.?labels", "?data"'),
    ),
    "Step out of the mesh by user, names, volumes, root or ignored ports": (
        opened(
            "who names no user has another one",
            "c.securityContext.{field} != {PROXY_USER} : {pods} && object",
            "c.securityContext.{field} != {PROXY_USER} : !({pods}) || object",
        ),
        opened("a proxy as any user", "{OF_MESH} && {_PROXYS}", "{OF_MESH}"),
        opened("a proxy for debugging", "\\\\.[0-9]+$", "\\\\.[0-9]+"),
        opened(
            "the proxy's group beside others",
            "!({PROXY_USER} in object.spec.securityContext.supplementalGroups)",
            "object.spec.securityContext.supplementalGroups != [{PROXY_USER}]",
        ),
        opened(
            "init containers are not looked at",
            "has(object.spec.initContainers) ? dyn(object.spec.initContainers) : dyn([])",
            "dyn([])",
            RULE,
        ),
        opened("any port is left to the application", "\"v.split(',').all(p, p ==", "\"v.split(',').exists(p, p =="),
        opened("any address is left out", "f\"v in {json.dumps(['', POD_IDENTITY_AGENT])}\"", '"true"'),
        opened("what is not known of Istio passes", "!k.contains('istio.io/') ||", "!k.startsWith('sidecar.istio.io/') ||"),
        opened("templates bring the proxy's container", "c, !c.name.startsWith('istio-')", "c, c.name != 'istio-init'"),
        opened("templates bring the proxy's volumes", "template.spec.volumes.all(e,", "template.spec.volumes.exists(e,"),
        opened("any container has the proxy's files", "            _FILES,\n"),
        opened(
            "a root that is there is anybody's",
            "(request.resource.resource != 'configmaps'",
            "(request.operation == 'UPDATE' || request.resource.resource != 'configmaps'",
            "components/platform/boundaries.py",
        ),
    ),
    "Send past the mesh by a command in the proxy": (
        opened(
            "the proxy is one of the containers",
            "object.container in ['', '{SERVER_CONTAINER}']",
            "object.container in ['', 'istio-proxy', '{SERVER_CONTAINER}']",
        ),
        opened(
            "any case of the name",
            "object.container in ['', '{SERVER_CONTAINER}']",
            "object.container.lowerAscii() in ['', '{SERVER_CONTAINER}']",
        ),
        opened(
            "debuggers may be asked",
            "object.container in ['', '{SERVER_CONTAINER}']",
            "object.container in ['', 'debugger', '{SERVER_CONTAINER}']",
        ),
    ),
    "Hold what is the platform's as a dependent": (
        opened("owners that come later", '    also_reads="?metadata.?ownerReferences",\n', ""),
        opened("a kind is forgotten", '    "scaledobjects",\n    "services",\n', '    "services",\n'),
        opened("the kinds of the core alone", 'name="no-owners",\n    group="*"', 'name="no-owners",\n    group=""'),
        opened("changes are not looked at", '("CREATE", "UPDATE")', '("CREATE",)', RULE),
    ),
    "Stop the gateway for all by a route, or fill it": (
        opened("hosts without end", "object.spec.hosts.size() <= 16 && "),
        opened("matches without end", "(!has(r.match) || r.match.size() <= 16)", "true"),
        opened("weights that Envoy cannot add up", "(!has(d.weight) || d.weight <= 100) && "),
        opened("values with anything behind them", "{1,128}$'\"\n\n\ndef", "{1,128}'\"\n\n\ndef"),
        opened("retries without end", " && (!has(r.retries.attempts) || r.retries.attempts <= {MOST_RETRIES})"),
        opened("headers that are taken off", "{part}.headers.request.remove.all(h, h == '{EXPERIMENT_HEADER}')", "true"),
        opened("headers of one arm", "&& {_only_says('d', json.dumps([DEGRADED_HEADER, RELEASE_HEADER]))}"),
        opened("ports without end", "object.spec.ports.size() <= 8", "object.spec.ports.size() <= 100"),
        opened(
            "looking all the time",
            "duration(object.spec.trafficPolicy.outlierDetection.interval) >= duration('1s')",
            "duration(object.spec.trafficPolicy.outlierDetection.interval) >= duration('1ms')",
        ),
    ),
    "Keep others' pods away": (opened("some such pods are granted", '{"pods": "0"}, alone', '{"pods": "10"}, alone'),),
    "Hold a node, or take of it what no quota counts": (
        opened(
            "one good finalizer among several is enough",
            "object.metadata.finalizers.all(f, f in",
            "object.metadata.finalizers.exists(f, f in",
        ),
        opened("a pod without a GPU keeps its node", "object.metadata.annotations[k] != 'false')", "true)"),
        opened("a probe that waits for ever", '("livenessProbe", "startupProbe")', '("startupProbe",)'),
        opened("another probe that waits for ever", '("livenessProbe", "startupProbe")', '("livenessProbe",)'),
        opened(
            "a pod that leaves in its own time",
            "object.spec.terminationGracePeriodSeconds <= {LONGEST_GRACE_SECONDS}",
            "object.spec.terminationGracePeriodSeconds >= 0",
        ),
        opened(
            "whatever NVIDIA's name is in",
            "|| k.startsWith('nvidia.com/'))) && (!has(object.spec.resources)",
            "|| k.contains('nvidia.com'))) && (!has(object.spec.resources)",
        ),
        opened("what the pod as a whole asks for", "dyn(object.spec.resources).limits.all(k, k in {json.dumps(COUNTED)})", "true"),
        opened("a node that the pod names", "!has(object.spec.nodeName) || object.spec.nodeName == ''", "true"),
        opened("every taint of a pool's node", "t.key in variables.taints[variables.pool] && ", "true && "),
        opened("digests that are longer than a tag", "c.image.matches('@sha256:[0-9a-f]{64}$') || ", "c.image.contains(':') || "),
    ),
    "Forge series of others' Services or nodes": (
        opened("a replica's proxy is believed of everybody", "[of_pod, own],", "[of_pod],"),
        opened("a proxy says whose it is", '"targetLabel": "namespace"', '"targetLabel": "destination_service_namespace"'),
    ),
    "Stop node health by odd pods": (
        opened("a list that is too large ends the look", "if size == 1:", "if size:", raises="headway.problem.UserError"),
        opened(
            "times of any size are compared",
            " and _SHORTEST_SECONDS < time < _LONGEST_SECONDS",
            file="headway/diagnosis/sibling_watch.py",
            raises="OverflowError",
        ),
    ),
    "Make a namespace one of no tenant": (
        opened(
            "by its status", '("namespaces", "namespaces/finalize", "namespaces/status")', '("namespaces", "namespaces/finalize")', RULE
        ),
        opened("by its end", '("namespaces", "namespaces/finalize", "namespaces/status")', '("namespaces", "namespaces/status")', RULE),
        opened("any level will do", "variables.level == 'restricted'", "variables.level != ''"),
        opened(
            "bound to tenants alone", "everywhere = rule.resources in (NAMESPACES, NODES)", "everywhere = rule.resources in (NODES,)", RULE
        ),
    ),
    "Privilege, a host path, GPUs by resizing or asking for none": (
        opened("privileged containers", "(!has(c.securityContext.privileged) || !c.securityContext.privileged) && "),
        opened(
            "paths of the node",
            "object.spec.volumes.all(v, !has(v.hostPath))",
            "object.spec.volumes.all(v, !has(v.hostPath) || v.hostPath.path != '/')",
        ),
        opened("devices by another prefix", "!k.contains('cdi.k8s.io/')", "!k.startsWith('cdi.k8s.io/')"),
        opened("another tenant's processes", "!(has(object.spec.hostPID) && object.spec.hostPID) && "),
        opened("who asks for no GPU gets all", "|| c.resources.limits[k] != '0')", "|| c.resources.limits[k] != '')"),
    ),
    "Keys of one's own for another tenant's issuer, in a contract": (
        opened("the first who says it is right", "for other in others:", "for other in others[:0]:"),
        opened(
            "all of them must differ",
            "if any(theirs.issuer == issuer.issuer and theirs",
            "if all(theirs.issuer == issuer.issuer and theirs",
        ),
    ),
    "The same, in the cluster": (
        opened("addresses of keys are not compared", "mine.?jwksUri.orValue('') == theirs.?jwksUri.orValue('') && "),
        opened("keys in the object are not compared", " && mine.?jwks.orValue('') == theirs.?jwks.orValue('')"),
        opened("changes are not looked at", '"operations": ["CREATE", "UPDATE"]', '"operations": ["CREATE"]'),
        opened("one of the issuers is enough", "orValue([]).all(mine,", "orValue([]).exists(mine,"),
    ),
    "Another tenant's GPUs, by a higher priority or another class": (
        opened(
            "any class that Kubernetes knows",
            "variables.priority == '' || variables.priority in variables.pools",
            "variables.priority == '' || variables.priority.startsWith('system-') || variables.priority in variables.pools",
            "components/tenant/admission.py",
        ),
        opened(
            "another pool's class",
            "(variables.priority in variables.pools && variables.pool in variables.pools[variables.priority])",
            "variables.priority in variables.pools",
            "components/tenant/admission.py",
        ),
    ),
    "Pass for a diagnostic": (
        opened("a label is enough", 'body["metadata"]["namespace"] == NODE_HEALTH_NAMESPACE and '),
        opened(
            "a result is anybody's",
            "if _is_diagnostic(pod) and pod",
            'if DIAGNOSTIC_LABEL in (pod["metadata"].get("labels") or {}) and pod',
        ),
    ),
    "End a pool's caching by one object": (
        opened(
            "a field that is missing", "except (KeyError, TypeError, ValueError):", "except (TypeError, ValueError):", raises="KeyError"
        ),
        opened(
            "a field of another type", "except (KeyError, TypeError, ValueError):", "except (KeyError, ValueError):", raises="TypeError"
        ),
        opened("a text that is no JSON", "except (KeyError, TypeError, ValueError):", "except (KeyError, TypeError):", raises="ValueError"),
        opened("who names most comes first", "sorted(order))", "order)"),
        opened("who came first keeps it", "if key not in self._placed)", "if key not in self._wanted)", "headway/artifact_cache/store.py"),
    ),
    "Read another tenant's weights from the node's cache": (
        opened(
            "a prefix that begins alike",
            'file.key.startswith(f"{file.tenant}/")',
            "file.key.startswith(file.tenant)",
            "headway/artifact_cache/wanted.py",
        ),
        opened("a way up", '{"", ".", ".."} & set', '{"", "."} & set', "headway/artifact_cache/wanted.py"),
        opened(
            "what is its own of them",
            "return found if all(_own(each) for each in found) else ()",
            "return tuple(each for each in found if _own(each))",
            "headway/artifact_cache/wanted.py",
        ),
        opened("no bucket", "and _BUCKET.fullmatch(file.bucket)", "", "headway/artifact_cache/wanted.py"),
        opened("what its releases do not name", "if kept is None or (tenant, sha256) not in self._wanted:", "if kept is None:"),
        opened("a key without end", " and len(file.key.encode()) <= _LONGEST_KEY", "", "headway/artifact_cache/wanted.py"),
    ),
    "The node's credentials, or private addresses": (
        opened("link-local addresses", '"100.64.0.0/10", "169.254.0.0/16", "172', '"100.64.0.0/10", "172'),
        opened("one private range", '"172.16.0.0/12", "192.168.0.0/16")', '"192.168.0.0/16")'),
        opened("addresses of other pods", '("10.0.0.0/8", "100.64.0.0/10",', '("10.0.0.0/8",'),
        opened("what queues need leads everywhere", "_endpoint(surroundings.sqs)", "_endpoint(PRIVATE_RANGES)"),
        opened("the range of who hands out credentials", '{"cidr": POD_IDENTITY_AGENT}', '{"cidr": "169.254.0.0/16"}'),
        opened(
            "everything beside",
            '"cidr": "0.0.0.0/0", "except": list(PRIVATE_RANGES)',
            '"cidr": "0.0.0.0/0", "except": list(PRIVATE_RANGES[:1])',
        ),
    ),
    "Weights that are not those of the contract": (
        opened(
            "the first bytes of a digest",
            "    found = digest(partial)\n    if found != sha256:",
            "    found = digest(partial)\n    if found[:0] != sha256[:0]:",
        ),
        opened("what was refused stays", "        partial.unlink()\n        remedy", "        remedy"),
        opened("what the node has is believed", "if found == sha256:", "if found:"),
        opened("what is there is believed", "target.stat().st_size == size and digest(target) == sha256", "target.stat().st_size == size"),
    ),
    "Collect credentials by a redirect": (
        opened("every client's", "build_opener(_NoRedirects, TunnelsOnly", "build_opener(TunnelsOnly"),
        opened("those of a pod", "build_opener(Straight, urllib", "build_opener(urllib", FETCH),
    ),
    "Fill disk or memory, write elsewhere": (
        opened("digests with anything behind them", "not DIGEST.fullmatch(digest)", "not DIGEST.match(digest)"),
        opened("layers without end", " or len(cast(list[Any], found)) > MOST_PARTS"),
        opened("sizes without end", "not 0 <= size <= LARGEST_BLOB", "not 0 <= size"),
        opened("sizes below nothing", "not 0 <= size <= LARGEST_BLOB", "not size <= LARGEST_BLOB"),
        opened("a size that is yes", "type(size) is not int or", "not isinstance(size, int) or"),
        opened("an index that says it is an image", 'self.kind in INDEXES or "manifests" in content', "self.kind in INDEXES"),
    ),
    "Read credentials on the way": (
        opened("a proxy for all", ' if scheme == "https"}', "}"),
        opened("a proxy for a pod", ", urllib.request.ProxyHandler({}))", ")", FETCH),
    ),
    "Requests without a token, or with another tenant's": (
        opened("audiences of any of the issuers", '"notValues": audiences}', '"notValues": sorted(sum(vouched.values(), []))}'),
        opened("refusals that are only written down", '"action": "DENY", "rules": refused', '"action": "AUDIT", "rules": refused'),
        opened("hosts of another ending", 'f"*{ending}"', 'f"*{ending}:443"'),
    ),
    "Wake a service, or hide its errors, without a token": (
        opened("refusals by gRPC count", ',grpc_response_status!~"7|16"'),
        opened("forged tokens count", '!~"401|403"', '!~"403"'),
    ),
    "Leave nobody a place to wait": (
        opened("a tenant takes all that are left", "self._taken[service.tenant] + size <= left", "size <= left"),
        opened("a large request takes no more than a small one", "max(1, -(-kept // 2**20))", "1"),
    ),
    "More than the tenant is granted": (
        opened(
            "more than the whole rate",
            "min(rate, UNEVEN * rate / surroundings.gateway_replicas)",
            "UNEVEN * rate / surroundings.gateway_replicas",
        ),
        opened("the whole rate in every proxy", "min(rate, UNEVEN * rate / surroundings.gateway_replicas)", "rate"),
        opened("three times its share", "UNEVEN = 2", "UNEVEN = 3"),
    ),
    "An event beside the chain, a hole, another chain": (
        opened("what follows is not compared", "return event.previous == end.hash", "return bool(event.previous)"),
        opened("what is no event is passed over", 'found.append(ChainFlaw(expected, f"{_shown(name)} is no event: {problem}"))'),
        opened("a chain of another place", "event.previous in (UNBOUND, genesis(chain, environment))", "True"),
        opened(
            "a chain that says it is another's",
            "return event.kind == BOUND and environment is not None and whose != (chain, environment)",
            "return False",
        ),
    ),
    "Take an event back by deleting it or writing it anew": (
        opened("what is there now counts", "if not all(one.once for one in keys):", "if not keys:"),
        opened(
            "the newest writing counts",
            "for last in contents:",
            "for last in [*contents][-1:]:",
            "headway/ledger/proof.py",
        ),
        opened(
            "what was deleted counts no more",
            "if content is None and there:",
            "content = content if there else None\n        if content is None and there:",
            "headway/ledger/proof.py",
        ),
    ),
    "Write a whole ledger anew, or cut it off, with every right on its bucket": (
        opened("a shorter chain", 'return f"its witness names event {number}, and it ends with event {len(hashes)}"', "return None"),
        opened("another event", "if number and hashes.of(number) != witnessed:", "if number and not hashes.of(number):"),
        opened(
            "who only asks what it knows",
            "    word.require(chain, environment, kept.hashes)\n    return ",
            "    return ",
            "headway/ledger/reading.py",
        ),
        opened(
            "a reader that asks nobody",
            "            if finished:\n                word.require(self.chain, self.environment, read)\n",
            "",
            "headway/ledger/chain.py",
        ),
    ),
    "The same with evaluations or drift, which a loop believes": (
        opened("rounds are not compared", "        self._rounds.attest()  # also what was written by a loop that died then\n"),
    ),
    "The same under the eyes of who reads by turns": (
        opened("that it is gone is nothing", "        if self._end.number < number:\n            raise self._gone(number)\n"),
        opened(
            "another one will do",
            "if hash_ != self.hashes.of(event.number):",
            "if not hash_:",
            "headway/ledger/kept.py",
        ),
        opened(
            "nothing is read again",
            "finished = self._again() if self._count else self._read_on(self._end)",
            "finished = self._read_on(self._end)",
        ),
    ),
    "Keep the guard quiet on a chain that was written anew": (
        opened("a promise without a comparison", "            self._ledger.look()\n", "            self._ledger.read()\n"),
    ),
    "Speak for the releases' witness from a loop": (
        opened(
            "of every chain that it asks",
            """{named(each, f's3://{found.ledger}')}" for each in written]""",
            """{named(each, f's3://{found.ledger}')}" for each in (loops.CHAINS, *written)]""",
        ),
    ),
    "Write in another tenant's ledger, its witness or its state": (
        opened("a ledger that begins alike", 'mine = [f"{ledger}/{tenant}/*"', 'mine = [f"{ledger}/{tenant}*"'),
        opened("every lease", 'f"{ledger}/{LEDGER_LEASES}{tenant}/*"', 'f"{ledger}/{LEDGER_LEASES}*"'),
        opened("every witness", 'f"{duty.witness}/{tenant}/*"', 'f"{duty.witness}/*"'),
        opened("the state of a layer that begins alike", 'resources=[f"{bucket}/{prefix}*"]', 'resources=[f"{bucket}/{prefix[:-1]}*"]'),
        opened("every tenant's weights", 'resources=[f"{artifacts}/{duty.layer}/*"]', 'resources=[f"{artifacts}/*"]'),
        opened("how long events are kept", "[each for each in mine if LEDGER_LEASES in each]", "mine"),
        opened(
            "every key",
            'key = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": duty.state_key_alias}}',
            "key: dict[str, dict[str, str]] = {}",
        ),
        opened("another environment's keys", '"StringEqualsIfExists": own["StringEquals"], "Null"', '"Null"'),
        opened("what is there already is tagged", '{**new, "Null": {"ec2:CreateAction": "false"}}', "new"),
        opened(
            "another tenant's associations", 'yield "Eks", associations, {"StringEquals": mine}, ""', 'yield "Eks", associations, {}, ""'
        ),
    ),
    "Make roles that may more than oneself": (
        opened(
            "any role", "all_resources_but=[*roles, linked]", 'all_resources_but=[*roles, linked, f"arn:aws:iam::{duty.account_id}:role/*"]'
        ),
        opened("boundaries are taken off", '    "iam:DeleteRolePermissionsBoundary",\n'),
        opened("another issuer", "all_resources_but=[oidc]", 'all_resources_but=[oidc, f"arn:aws:iam::{duty.account_id}:oidc-provider/*"]'),
        opened(
            "services of any kind get a role",
            'conditions={"StringEquals": {"iam:PassedToService": list(PASSED_TO["cluster"])}}',
            'conditions={"StringLike": {"iam:PassedToService": "*.amazonaws.com"}}',
        ),
    ),
    "Unwatched traffic on a version, by one odd object": (
        opened(
            "a route without what is asked",
            "except ODD as odd:",
            "except (LookupError, TypeError, ValueError) as odd:",
            raises="AttributeError",
        ),
        opened(
            "a route of another shape",
            "except ODD as odd:",
            "except (AttributeError, LookupError) as odd:",
            raises="TypeError",
        ),
        opened(
            "one odd route ends the look",
            'missed.append(f"{name}: nobody of ours writes a route like it ({type(odd).__name__}: {odd})")',
            "break",
        ),
    ),
    "The same, by forged objects, a stolen lease or a runner that stood still": (
        opened("a runner that stood still speaks on", "if self.service.count != before:", "if self.service.count < before:"),
        opened(
            "a route that changed meanwhile",
            "self.world.vouch(self.world.now() + lasts if lasts else None, rollout.stable, seen)",
            "self.world.vouch(self.world.now() + lasts if lasts else None, rollout.stable, self.world.route().version)",
        ),
    ),
    "Another pipeline's token for a role": (
        opened("patterns of any length", 'set("*?")', 'set("?")'),
        opened("patterns of one letter", 'set("*?")', 'set("*")'),
    ),
    "Fill Prometheus by a page": (
        opened("limits are not written", "            **PAGE_LIMITS,\n"),
        opened("values as long as one likes", ', "labelValueLengthLimit": 1024', "", "components/platform/mesh.py"),
    ),
    "Steer a server, or generate unseen": (
        opened("whatever nobody thought of", '{"notPaths": list(asked)}', '{"paths": list(CLOSED)}'),
        opened(
            "a way to generate that says no tokens", '        "/health",\n', '        "/health",\n        "/inference/*",\n', SERVED_PATHS
        ),
        opened("whatever lies below a model", '        "/v2/models/{*}",\n', '        "/v2/models/*",\n', SERVED_PATHS),
    ),
    "Hide tokens from their count": (
        opened(
            "a prompt costs nothing before its first token",
            'told:set("{TOKENS_STATE}", "spent", estimate)',
            'told:set("{TOKENS_STATE}", "spent", 0)',
            raises="_queue.Empty",
        ),
        opened(
            "the last usage is believed, whatever came after",
            "local unsaid = streamed and since or 0",
            "local unsaid = 0",
            raises="_queue.Empty",
        ),
    ),
    "Read a request from ledger, logs or alerts": (
        opened(
            "a round keeps the requests that it counted",
            "self._write(DriftEvent.COUNTED, standing, self._body(windows, edges, end))",
            'self._write(DriftEvent.COUNTED, standing, {**self._body(windows, edges, end), "of": repr(self.read(standing.release, start, end))})',
        ),
    ),
    "A compressed body that unpacks beyond the contract": (
        opened("nobody unpacks it before its size is judged", "filters = [_UNPACK, _buffer(", "filters = [_buffer("),
    ),
    "Fill the gateway's memory": (
        opened("more than there is may be used", '"max_heap_size_bytes": heap', '"max_heap_size_bytes": 100 * heap'),
    ),
    "Say what only the platform says of a request": (
        opened("names with underscores pass", ', "headers_with_underscores_action": "DROP_HEADER"'),
    ),
    "Give orders to terminals and browsers": (
        opened("the beginning of a release's name is enough", "_NAME.fullmatch(value)", "_NAME.match(value)"),
        opened("containers name themselves", 'in f"{line.pod} {line.container} | {line.text}")', "in line.text)", "headway/cli/logs.py"),
        opened(
            "words of events are passed on",
            '"".join(c if c.isprintable() else " " for c in text)',
            '"".join(text)',
            file="headway/release/messages.py",
        ),
        opened(
            "answers of probes are passed on",
            "on_one_line(pending.why(pod, nodes, pods, about.get(name, ())))",
            "pending.why(pod, nodes, pods, about.get(name, ()))",
            file="headway/service_status/replicas.py",
        ),
        opened("words of tenants in a loop's log", 'f"{on_one_line(line)}\\n"', 'f"{line}\\n"', file="headway/cli/loop_process.py"),
        opened("witnesses as they are", "escape(on_one_line(cell)) for", "escape(cell) for", file="headway/cli/leftovers.py"),
        opened("places in a ledger as they are", "{on_one_line(chain)}", "{chain}", file="headway/cli/release_copy.py"),
    ),
    "Speak for another's service in `headway status`": (opened("labels say whose an object is", 'and tenant == head.get("namespace") '),),
    "Leave others' engines unpicked": (
        opened(
            "who comes first has all",
            "zip_longest(*(own.items() for own in owned.values()))",
            "(own.items() for own in owned.values())",
        ),
        opened(
            "an engine says how much is believed of it",
            "min((facts.capacity or CAPACITY) // self.block, room)",
            "max((facts.capacity or CAPACITY) // self.block, room)",
            "headway/endpoint_picker/tracking.py",
        ),
        opened(
            "one tenant's open requests take all",
            "if full and self._asked[owner] + len(keys) > MOST_ASKED // len(self._owned):",
            "if full:",
            "headway/endpoint_picker/tracking.py",
        ),
    ),
    "Have causes told to somebody else": (
        opened("a service that no contract names is asked", '(chain := f"{tenant}/{model}") in known', '(chain := f"{tenant}/{model}")'),
        opened(
            "a tenant's alert of no model asks about all",
            'if tenant not in tenants or chain.startswith(f"{tenant}/")',
            "if tenant not in tenants or chain",
        ),
    ),
    "More than lists by the diagnosis loop's identity": (
        opened("what is listed is read one by one too", '"resourcequotas"), ("list",))', '"resourcequotas"), ("get", "list"))'),
    ),
    "Learn others' pods from diagnoses": (
        opened("a neighbour is called as it is", "found[pod] = pod if namespace in own else", "found[pod] = pod if own else"),
        opened("a sentence names every pod", "found[0] if found[1] in own else", "found[0] if own else"),
    ),
    "Secrets in what is kept of an incident or a rollback": (
        opened(
            "a name alone says no secret", '"****" if isinstance(each, str) and names_a_secret(key) else redacted(each)', "redacted(each)"
        ),
        opened("texts are kept as they are", "return masked(value)", "return value"),
    ),
    "Have an alert run one's words": (opened("the owner's words are a template", "{_literal(model.owner)}", "{model.owner}"),),
    "Open ports, floating images, rights for all": (
        opened(
            "what cannot be read passes",
            'breaches.append(rule.complete(breach("", f"the inputs have a shape',
            'list[Problem]().append(rule.complete(breach("", f"the inputs have a shape',
            raises="ValueError: not enough values",
        ),
        opened("kinds that are named by what they begin with", 'type == a or (a[-1] in ":/" and type.startswith(a))', "type == a"),
        opened("open ports by IPv6", '("cidrIpv4", "cidrIpv6")', '("cidrIpv4",)', "policies/guardrails/network.py"),
        opened("open ports in a group itself", 'list(r["ingress"].each())', "[]", "policies/guardrails/network.py"),
        opened("images with a tag", "if not _DIGEST.search(image):", 'if ":" not in image:', "policies/guardrails/supply_chain.py"),
        opened("whatever stands behind a digest", "{64}\\Z", "{64}", "policies/guardrails/supply_chain.py"),
        opened("everybody beside somebody", "return any(everyone(value)", "return all(everyone(value)", "policies/guardrails/identity.py"),
        opened("everybody in a list", ' or (isinstance(principal, list) and "*" in principal)', "", "policies/guardrails/identity.py"),
        opened(
            "every action in other letters",
            '.strip("*?")\n\n\ndef _every_resource',
            '.strip("*")\n\n\ndef _every_resource',
            "policies/guardrails/identity.py",
        ),
        opened(
            "what was found before an unknown is lost",
            "return RuleVerdict(tuple(breaches), unknown.path)",
            "return RuleVerdict((), unknown.path)",
        ),
    ),
    "Read state, logs or keys on a shared machine": (
        opened("the group may enter", "stat.S_IRWXG | stat.S_IRWXO", "stat.S_IRWXO"),
        opened("others may enter", "stat.S_IRWXG | stat.S_IRWXO", "stat.S_IRWXG"),
        opened("a folder that is there stays open", "        path.chmod(0o700)\n", "        path.chmod(0o750)\n"),
        opened("somebody else's folder", "found.st_uid != os.geteuid()", "found.st_uid < 0"),
    ),
    "Fill a loop by a ledger": (
        opened("what is kept is not weighed", "if weighs_more(self.state, KEPT_AT_MOST):", "if weighs_more(None, KEPT_AT_MOST):"),
        opened("hashes without end", "if self._count > EVENTS_AT_MOST:", "if self._count < 0:"),
        opened("a container is as large as itself", "        found.extend(gc.get_referents(one))\n"),
        opened("any number of bytes at a look", "if self.left <= 0:", "if self.left <= -math.inf:", "headway/ledger/reading.py"),
        opened(
            "loops keep the events too",
            "        self.kept.take(event, hash_, size)\n",
            "        self.kept.take(event, hash_, size)\n        self.__dict__.setdefault('events', []).append(event)\n",
        ),
        opened("an object is read whole", "min(size, LARGEST_JSON + 1)", "size", "headway/ledger/store.py"),
        opened("writings without end", "if count > MOST_VERSIONS:", "if count > 100 * MOST_VERSIONS:", "headway/ledger/s3_store.py"),
    ),
    "An event, object, answer or file of another shape, or without end": (
        opened("texts without end", "if len(content) > largest:", "if len(content) > largest * 1000:"),
        opened("lists in lists", "    except RecursionError:\n", "    except RecursionError if deepest < 0 else ValueError:\n"),
        opened("deep texts", "    _refuse_deep(value, deepest)\n", ""),
        opened("numbers that are none", "parse_constant=_no_number, "),
        opened("numbers without end", "if not math.isfinite(number):", "if math.isnan(number):"),
        opened("half of a pair", "if _HALF_OF_A_PAIR.search(text):", "if _HALF_OF_A_PAIR.fullmatch(text):"),
        opened(
            "one service's samples end a loop",
            "MissingStoreError, UserError, *ODD)",
            "MissingStoreError, UserError)",
            "headway/cli/look_voice.py",
        ),
        opened(
            "a replica says which lines were asked",
            "- Counter(drawn):",
            "- Counter(range(-10**6, 10**6)):",
            "headway/release/evaluator/asking.py",
        ),
        opened("arithmetic of a chain's numbers", "ODD = (ArithmeticError, ", "ODD = (", "headway/problem.py", raises="OverflowError"),
        opened(
            "a text of a chain a million times",
            "        if type(seconds) not in (int, float):\n",
            "        if seconds is None:\n",
            "headway/contract/units.py",
        ),
        opened("small values without end", "len(text) > MOST_VALUES and text.count", "len(text) > 100 * MOST_VALUES and text.count"),
    ),
    "Fill memory or time with a contract": (
        opened("texts without end", "if len(raw) > LARGEST_DOCUMENT:", "if len(raw) > 100 * LARGEST_DOCUMENT:"),
        opened("values without end", "if self.nodes > MOST_NODES:", "if self.nodes > 100 * MOST_NODES:"),
        opened("levels without end", "if depth > DEEPEST:", "if depth > 100 * DEEPEST:"),
        opened("aliases", "elif isinstance(event, yaml.AliasEvent):", "elif isinstance(event, yaml.AliasEvent) and documents > 1:"),
        opened("anchors", "if event.anchor is not None:", "if event.anchor is not None and depth > DEEPEST:"),
        opened("numbers without end", "math.isfinite(float(text))", "text"),
    ),
}
