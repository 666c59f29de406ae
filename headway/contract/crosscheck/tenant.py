"""What shows when a tenant and its models are seen together: quota, budget, allowed runtimes, prefixes, fallbacks."""

from collections.abc import Iterator, Sequence

from headway.contract.arithmetic.cost import cost
from headway.contract.arithmetic.quota import quota_use, token_use
from headway.contract.artifact import RELATIVE
from headway.contract.batch import PLATFORMS_BUCKETS, outside_the_platform
from headway.contract.model import Model
from headway.contract.runtime import Engine
from headway.contract.tenant import MODELS_AT_MOST, Tenant
from headway.contract.units import Money
from headway.problem import Problem, problem


def quota(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    for use in quota_use(tenant, models):
        if not use.within:
            share = "; ".join(f"{line.what} {line.figure} = {line.why}" for line in use.lines)
            yield problem(
                "quota-at-maximum-replicas",
                *use.path,
                value=use.show(use.limit),
                fact=f"all models at their maximum need {use.need}, and {use.show(use.limit)} are granted ({share})",
                consequence="The namespace's quota would refuse new replicas in the middle of a load peak",
                remedy=f"Grant {use.need}, or lower max_replicas, warm_replicas or batch.max_replicas of a model",
            )
    if len(models) > MODELS_AT_MOST:
        yield problem(
            "models-at-most",
            value=len(models),
            fact=f"the tenant has {len(models)} models, and {MODELS_AT_MOST} is the limit",
            consequence="An update of its stack would take minutes even for the smallest change",
            remedy="Divide the models between two tenants",
        )
    tokens = token_use(models)
    if tokens and tenant.quota.tokens is None:
        yield problem(
            "token-quota-of-language-models",
            "quota",
            "tokens",
            fact="the tenant has language models and no token quota",
            consequence="One caller with long prompts or answers could use up the whole budget and stay within its quota of requests",
            remedy=f"Grant tokens, of prompts and answers together; all models at their maximum generate {tokens}",
        )


def budget(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    least = Money(sum(int(cost(model).month_at_least) for model in models))
    if least > tenant.quota.monthly_budget:
        yield problem(
            "budget-covers-the-minimum",
            "quota",
            "monthly_budget",
            value=tenant.quota.monthly_budget,
            fact=f"minimum replicas and warm places alone cost {least.brief} a month at list price",
            consequence="They would cost more than the budget every month, even if nobody called the models",
            remedy=f"Raise the budget to {least.brief} or more, or lower min_replicas or warm_replicas",
        )


def forecast(tenant: Tenant, models: Sequence[Model]) -> Iterator[Problem]:
    least = Money(sum(int(cost(model).month_at_least) for model in models))
    most = Money(sum(int(cost(model).month_at_most) for model in models))
    if least <= tenant.quota.monthly_budget < most:
        yield problem(
            "budget-may-be-exceeded",
            "quota",
            "monthly_budget",
            value=tenant.quota.monthly_budget,
            fact=f"maximum replicas, warm places and batch workers would cost {most.brief} in a whole month, at list price",
            consequence="A busy month would cost more than the budget",
            remedy="Do nothing where that is intended: an alarm tells of it by the forecast of what the tenant's pods hold, before the money is spent",
        )


def issuers(tenant: Tenant, others: Sequence[Tenant]) -> Iterator[Problem]:
    """One gateway takes the tokens of all tenants, by issuer: whoever states keys of their own for another's issuer signs
    tokens for the other's models."""
    for index, issuer in enumerate(tenant.issuers):
        for other in others:
            if any(theirs.issuer == issuer.issuer and theirs.jwks_uri != issuer.jwks_uri for theirs in other.issuers):
                yield problem(
                    "issuer-has-one-set-of-keys",
                    "issuers",
                    index,
                    "jwks_uri",
                    value=issuer.jwks_uri,
                    fact=f"tenant {other.name} states other keys for the issuer {issuer.issuer}",
                    consequence="The gateway would take tokens that either has signed for callers of both",
                    remedy="State the keys that the issuer publishes in both contracts, or an issuer of the tenant's own",
                )


def keys_in_reach(tenant: Tenant, *, eks_endpoint: bool, without_nat: bool) -> Iterator[Problem]:
    """Keys of EKS's own issuers are on the internet alone, and the zone of the VPC endpoint `eks` hides their name (EKS user guide, "IAM roles
    for service accounts"; aws/containers-roadmap#2038)."""
    for index, issuer in enumerate(tenant.issuers):
        host = issuer.jwks_uri.removeprefix("https://").partition("/")[0]
        if host.startswith("oidc.eks.") and (eks_endpoint or without_nat):
            yield problem(
                "issuer-keys-in-reach",
                "issuers",
                index,
                "jwks_uri",
                value=issuer.jwks_uri,
                fact=f"the environment has {'the endpoint eks, which hides the name of' if eks_endpoint else 'no NAT, and only the internet has'} {host}",
                consequence="The mesh could not read the keys, and the gateway would refuse every caller",
                remedy="Name an issuer that the VPC reaches"
                + (", or take eks out of network.endpoints" if not without_nat else ", or choose another network.nat"),
            )


def allowed(tenant: Tenant, model: Model) -> Iterator[Problem]:
    if model.runtime.engine not in tenant.runtimes:
        yield problem(
            "runtime-allowed",
            "runtime",
            "engine",
            value=model.runtime.engine,
            fact=f"tenant {tenant.name} may use {', '.join(tenant.runtimes)}, and not {model.runtime.engine}",
            consequence="Nobody has agreed to operate this runtime for the tenant",
            remedy="Use an allowed runtime, or have this one added to runtimes in tenant.yaml",
        )
    uri = model.artifact.uri
    if not _below(uri, tenant.name):
        yield problem(
            "artifact-below-the-tenant",
            "artifact",
            "uri",
            value=uri,
            fact=f"{tenant.name} is not the first part of the prefix",
            consequence="The tenant's identity reads below its own name only, so no replica could fetch the artifact",
            remedy=f"Store it below {RELATIVE}{tenant.name}/{model.name}/<version>/, or s3://<bucket>/{tenant.name}/",
        )
    if model.evaluation and not _below(model.evaluation.holdout.uri, tenant.name):
        yield problem(
            "holdout-below-the-tenant",
            "evaluation",
            "holdout",
            "uri",
            value=model.evaluation.holdout.uri,
            fact=f"{tenant.name} is not the first part of the prefix",
            consequence="Who releases for the tenant reads below its own name only, so the labelled requests could not be fetched",
            remedy=f"Store it below {RELATIVE}{tenant.name}/, or s3://<bucket>/{tenant.name}/",
        )
    if model.batch and not _below(model.batch.store, tenant.name):
        yield problem(
            "batch-store-below-the-tenant",
            "batch",
            "store",
            value=model.batch.store,
            fact=f"{tenant.name} is not the first part of the prefix",
            consequence="The tenant's identity writes below its own name only, so no answer could be stored",
            remedy=f"Use a prefix below batches://{tenant.name}/, or s3://<bucket>/{tenant.name}/",
        )
    if model.batch and model.batch.store.startswith(f"s3://{PLATFORMS_BUCKETS}"):
        yield outside_the_platform("batch", "store", value=model.batch.store)


def _below(uri: str, tenant: str) -> bool:
    """Whether a place in object storage belongs to the tenant: its name is the first part below the bucket, and none of
    those further down, which other tenants choose."""
    scheme, _, place = uri.partition("://")
    key = place.partition("/")[2] if scheme == "s3" else place
    return key.startswith(f"{tenant}/")


def fallback(model: Model, models: Sequence[Model], unread: frozenset[str]) -> Iterator[Problem]:
    by_name = {other.name: other for other in models}
    if model.degradation.fallback is None or model.degradation.fallback.model in unread:
        return
    path = ("degradation", "fallback", "model")
    name = model.degradation.fallback.model
    if name not in by_name:
        others = sorted(set(by_name) - {model.name})
        yield problem(
            "fallback-exists",
            *path,
            value=name,
            fact=f"the tenant has no model {name}",
            consequence="Requests that overload diverts would have no destination",
            remedy=f"Use one of {', '.join(others)}" if others else "Leave fallback out: the tenant has no other model",
        )
        return
    chain, at = [model.name], name
    while at in by_name and at not in chain:
        chain.append(at)
        further = by_name[at].degradation.fallback
        at = further.model if further else ""
    if at == model.name and len(chain) > 1:
        yield problem(
            "fallback-without-a-circle",
            *path,
            value=name,
            fact=f"the fallback leads back: {' -> '.join([*chain, at])}",
            consequence="Under overload a request would be passed round until it times out",
            remedy="Leave out the fallback of the lightest model",
        )
    if by_name[name].runtime.engine is not model.runtime.engine and Engine.VLLM in (by_name[name].runtime.engine, model.runtime.engine):
        yield problem(
            "fallback-speaks-the-same",
            *path,
            value=name,
            fact=f"{model.name} runs on {model.runtime.engine}, {name} on {by_name[name].runtime.engine}",
            consequence="The fallback would not understand the requests that it receives",
            remedy="Use a model with the same request protocol",
        )
