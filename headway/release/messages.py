"""Events of a release in plain words: one sentence each, for terminals, reports and messages. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import log
from typing import Any

from headway.ledger.events import Event
from headway.ledger.traffic_split import ArmRole, TrafficSplit
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.rollout_state import RolloutState

_MOST_SHOWN = 9999
_QUIET = frozenset({EventKind.LEASE, EventKind.LEASE_RELEASED})
_STEPS: Mapping[str, str] = {"warm": "warm-up", "synthetic": "synthetic requests", "golden": "golden requests"}
_WISHES = {
    OperatorRequest.FREEZE: "The weight is held",
    OperatorRequest.RESUME: "The weight may move again",
    OperatorRequest.PROMOTE: "Promotion was asked for",
    OperatorRequest.ROLLBACK: "Rollback was asked for",
}


_OF_USERS = {
    "FROZEN": "Both versions are as good for their users as the contract asks.",
    "SHARE_SETTLING": "Users of both versions have not asked yet.",
}
"""What the gate's words would say of a weight that a person holds."""


def said(event: Event) -> str | None:
    """One sentence or two; None for an event of the lease."""
    if event.kind in _QUIET:
        return None
    teller = _TELLERS.get(event.kind)
    return one_line(teller(event.body) if teller else f"{event.kind}.")


def one_line(text: str) -> str:
    """`text` without what a terminal would obey and a table would break at: whoever writes a reason writes to other
    people's terminals."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def split(traffic: TrafficSplit) -> str:
    """`5 % of requests, copies of 100 %`, or `20 % of users`."""
    canary = traffic.arm(ArmRole.CANARY)
    if canary is None:
        return f"only {traffic.arms[0].release}"
    if traffic.user_split:
        return f"{traffic.user_split.share.whole_percent} % of users"
    copies = f", copies of {traffic.mirror.share.whole_percent} %" if traffic.mirror else ""
    return f"{canary.weight.whole_percent} % of requests{copies}"


def verdict(rollout: RolloutState) -> str:
    """How it stands or ended, in a sentence or two."""
    how = rollout.outcome.value.capitalize() if rollout.outcome else "Going back" if rollout.failing else ""
    return one_line(f"{how}. {why(rollout)}" if how else why(rollout))


def why(rollout: RolloutState) -> str:
    """The reason alone."""
    if rollout.outcome and rollout.ended:
        loose = "" if rollout.ended["reconciled"] else " The stack could not be brought into line; update it with `pulumi up`."
        return f"{first_sentence(str(rollout.ended['reason']))}{loose}"
    if rollout.failing:
        return first_sentence(rollout.failing.reason)
    held = f" Held by a person: {rollout.frozen}." if rollout.frozen else ""
    if rollout.divided:
        return f"{_experiment(rollout)}{held}"
    sentence = (
        first_sentence(rollout.decision["sentence"])
        if rollout.decision and "sentence" in rollout.decision
        else "The release is being prepared."
    )
    return f"{sentence}{held}"


def _experiment(rollout: RolloutState) -> str:
    """What becomes of an A/B release, and what the gate last said of its versions."""
    user_split, ends = rollout.user_split, rollout.users_end
    if user_split is None or ends is None:
        return "Users are about to be divided."
    when = _moment(ends)
    until = f"its time is over since {when}; promote or roll back" if rollout.due else f"until {when}; then a person decides"
    reason = str((rollout.decision or {}).get("reason", ""))
    found = first_sentence(rollout.decision["sentence"]) if rollout.decision and "sentence" in rollout.decision else ""
    said = _OF_USERS.get(reason, found)
    return f"{user_split.share.whole_percent} % of users have the new version in experiment {user_split.experiment}, {until}.{f' {said}' if said else ''}"


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def first_sentence(text: str) -> str:
    """Without the figures that follow."""
    return sentence(text.partition(" Now: ")[0])


def sentence(text: str) -> str:
    """With a capital at its beginning and one mark at its end."""
    said = text.strip()
    named = "_" in said.partition(" ")[0]  # a metric's name is written as it is
    said = said if named else said[:1].upper() + said[1:]
    return said if said.endswith((".", "!", "?")) else f"{said}."


def reach(value: float | str | None, bound: float | str) -> float:
    """How far an e-value has come towards its bound, 0 to 1: on a logarithmic scale, where 1 (it says nothing) is 0."""
    if value is None:
        return 0.0
    number, limit = float(value), float(bound)
    return max(0.0, min(1.0, log(number) / log(limit))) if number > 0 and limit > 1 else 0.0


def of_bound(value: float | str, bound: float | str) -> str:
    """An e-value beside its bound, as people compare them: `0.02 of 400`, `>9999 of 10`."""
    number = float(value)
    shown = f">{_MOST_SHOWN}" if number > _MOST_SHOWN else f"{number:.0f}" if number >= 100 else f"{round(number, 2):.2g}"
    return f"{shown} of {float(bound):.0f}"


def evidence(decision: Mapping[str, Any]) -> str:
    """What is nearest to failing, and on the way up what is furthest from its proof; empty where nothing is known."""
    signals = {name: signal for name, signal in decision["signals"].items() if signal["verdict"] != "NO_DATA"}

    def figure(name: str, what: str, bound: str) -> str:
        return f"{of_bound(signals[name][what], signals[name][bound])} ({name})"

    def known(what: str, bound: str) -> dict[str, float]:
        return {name: reach(s[what], s[bound]) for name, s in signals.items() if s[what] is not None}

    against, proof = known("evidence", "bound"), known("proof", "proof_bound")
    said = [f"against it {figure(max(against, key=lambda name: against[name]), 'evidence', 'bound')}"] if any(against.values()) else []
    if proof and decision["phase"] in ("releasing", "baking"):
        said.append(f"least proof {figure(min(proof, key=lambda name: proof[name]), 'proof', 'proof_bound')}")
    return ", ".join(said)


def _started(body: Mapping[str, Any]) -> str:
    speed = (
        ""
        if body["speed"] == 1
        else f" Its minutes pass {body['speed']:g} times as fast as its contract says, so its figures are those of a sandbox."
    )
    why = f" Reason: {body['reason'].strip().rstrip('.')}." if body["reason"] else ""
    despite = f" A person overruled its evaluation: {sentence(body['overruled'])}" if body.get("overruled") else ""
    users = f" Experiment {body['split']['experiment']} divides users by their {body['split']['user_claim']}." if body.get("split") else ""
    return f"Release {body['release']} begins. It is compared with release {body['stable']}; its strategy is {body['strategy']}.{users}{why}{despite}{speed}"


def _applied(body: Mapping[str, Any]) -> str:
    changes = ", ".join(f"{n} {kind}" for kind, n in sorted(body["changes"].items()) if kind != "same") or "nothing had to change"
    weights = ", ".join(f"{key} {weight} %" for key, weight in body["route"].items())
    return f"The stack was updated ({changes}, {body['seconds']:.1f} s). The live route now gives {weights}."


def _probed(body: Mapping[str, Any]) -> str:
    if body["passed"] is None:
        return f"{_STEPS.get(str(body['step']), str(body['step'])).capitalize()}: the replicas were not asked, because {body['reason']}."
    outcome = "passed" if body["passed"] else "FAILED"
    return f"{_STEPS.get(str(body['step']), str(body['step'])).capitalize()} {outcome}: {body['reason']} (asked by {body['by']})."


def _observed(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    at = "" if decision["phase"] == "rolled back" else f" {at_which(decision['where'])}"
    at = f", now{at}" if at and decision["verdict"] == "PASS" else at  # where a decision stands is where it leads to
    divided = _OF_USERS.get(str(decision["reason"])) if body.get("divided") else None
    better = " It answers better, so it may be as slow as its contract's trade says." if decision.get("better") else ""
    return f"{decision['verdict'].replace('_', ' ')}{at}. {divided or first_sentence(decision['sentence'])}{better}"


def at_which(where: str) -> str:
    """A step as the gate names it, `10%` or `mirror 100%`, in a sentence."""
    return where.replace("mirror", "on copies of") if where.startswith("mirror") else f"at {where}"


def _drifted(body: Mapping[str, Any]) -> str:
    asked, found = body.get("asked_led"), body["route"].get("led")
    users = f", and its users of experiment {asked[0]} are not led to {asked[1]}" if asked and asked != found else ""
    return f"Somebody changed the live route to {body['route']['weights']}{users}; it will be set back."


def _drained(body: Mapping[str, Any]) -> str:
    if body["measured"]:
        return f"The metrics show that the new version gets no more requests, {body['seconds']:.1f} s after the verdict."
    return f"Whether the new version still gets requests could not be measured: {body['reason']}."


def _ended(body: Mapping[str, Any]) -> str:
    return f"{body['outcome'].capitalize()}. {first_sentence(body['reason'])}"


_TELLERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    EventKind.ACCEPTED: lambda b: sentence(f"Somebody took the ledger for right although its witness named another one: {b['reason']}"),
    EventKind.ADOPTED: lambda b: f"What serves is registered as release {b['release']}.",
    EventKind.BOUND: lambda b: f"The ledger is that of {b['service']} in {b['environment']}: written down after {b['events']} events.",
    EventKind.STARTED: _started,
    EventKind.CHECKED: lambda b: (
        "The metrics can be read, so the release can be judged."
        if b["sound"]
        else f"The release cannot be judged: {'; '.join(b['findings'])}"
    ),
    EventKind.LEARNED: lambda _: "The gate has read what the stable version did before the release.",
    EventKind.REGATED: lambda b: sentence(
        f"Gate {b['gate']} decides the rest of the release in place of gate {b['before']}: {b['reason']}"
    ),
    EventKind.INTENDED: lambda b: f"The next traffic split is {split(TrafficSplit.read(b['division']))}.",
    EventKind.APPLIED: _applied,
    EventKind.REFUSED: lambda b: sentence(f"The update was refused and nothing was changed: {b['reason']}"),
    EventKind.FAILED: lambda b: sentence(f"The update failed again and again: {b['reason']}"),
    EventKind.READY: lambda b: f"All replicas are ready, after {b['seconds']:.1f} s.",
    EventKind.LATE: lambda b: sentence(f"Replicas did not become ready in time: {b['reason']}"),
    EventKind.PROBED: _probed,
    EventKind.OBSERVED: _observed,
    EventKind.DUE: lambda _: "The experiment's time is over. Users stay divided until somebody promotes or rolls back.",
    EventKind.DRIFTED: _drifted,
    EventKind.ASKED: lambda b: sentence(f"{_WISHES[OperatorRequest(b['wish'])]}: {b['reason']}"),
    EventKind.SHIFTED: lambda b: f"All traffic is back on the stable version, {b['seconds']:.1f} s after the verdict.",
    EventKind.DRAINED: _drained,
    EventKind.ENDED: _ended,
}
