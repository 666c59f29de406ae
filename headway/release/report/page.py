"""One self-contained HTML page about a release: no script, no font, no image from anywhere else; light and dark by the reader's choice.

Everything on it is read from the ledger, and says where. The trap: a page is shown to people who decide by it; so what was not measured,
what was held or pushed by a person, and what ran at a sandbox's speed stands at the top and not in a footnote.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from headway.ledger.events import Event
from headway.ledger.traffic_split import ArmRole, TrafficSplit
from headway.release import messages
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome
from headway.release.driver.rollout_state import RolloutState
from headway.release.report import plots
from headway.release.report.style import STYLE

_SIGNALS: Mapping[str, str] = {
    "latency": "Requests slower than each edge of the histogram, compared with the same moment's control.",
    "errors": "Failed requests, against the control and against a floor below which errors do not matter.",
    "correctness": "Golden answers that differ from what is expected.",
    "mirrored": "Answers to copies that differ from what users got for the same requests.",
    "queue": "Time spent waiting inside the server, against the control.",
    "cost": "What an inference costs, by GPU time, against the control.",
    "memory": "GPU memory in use: nearly full, or rising steadily towards it.",
    "share": "Whether the new version gets the share of requests it should. It never rolls back; a wrong share is no evidence. Where users are "
    "divided it says nothing: a few of them may make most requests.",
}
_TONES = {ReleaseOutcome.PROMOTED: "good", ReleaseOutcome.ROLLED_BACK: "bad", ReleaseOutcome.REFUSED: "warn"}


@dataclass(frozen=True, kw_only=True)
class Told:
    """A release with the events that are about it, in minutes since it began."""

    rollout: RolloutState
    events: tuple[Event, ...]

    def minutes(self, time: str) -> float:
        return (datetime.fromisoformat(time) - datetime.fromisoformat(self.rollout.time)).total_seconds() / 60

    @property
    def end(self) -> float:
        return max(self.minutes(self.events[-1].time), 1e-3)

    def of(self, kind: EventKind) -> Iterator[Event]:
        return (event for event in self.events if event.kind == kind)


def html(chain: str, environment: str, rollout: RolloutState, events: Sequence[Event]) -> str:
    """The page. `events` are the chain's."""
    told = Told(rollout=rollout, events=about(rollout, events))
    parts = [
        _head(chain, environment, told),
        _caveats(told),
        _section("Traffic", _traffic(told)),
        _section("Evidence", "".join(_signals(told))),
        _section("What changed", _difference(rollout.body["difference"])),
        _section("What happened", _story(told)),
        _section("Who, what, on which numbers", _facts(chain, environment, told)),
        _footer(chain, told),
    ]
    title = f"{chain} {rollout.release}: {rollout.status}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def about(rollout: RolloutState, events: Sequence[Event]) -> tuple[Event, ...]:
    """The events of one release: from its beginning to its end."""
    found: list[Event] = []
    for event in events[rollout.number - 1 :]:
        found.append(event)
        if event.kind == EventKind.ENDED:
            break
    return tuple(found)


def _head(chain: str, environment: str, told: Told) -> str:
    rollout = told.rollout
    tone = _TONES.get(rollout.outcome, "open") if rollout.outcome else "open"
    spent = _spent(told.end)
    exposed = sum(users * (until - since) for since, until, users in _held(told))
    figures = (
        ("from start to end" if rollout.over else "so far", spent),
        ("ticks of evidence", str(rollout.ticks)),
        ("of full traffic before it was proven", f"{exposed:.2g} min"),
        *((("back after", f"{s:.1f} s"),) if (s := _seconds(told, EventKind.SHIFTED)) is not None else ()),
        *((("measured gone after", f"{s:.1f} s"),) if (s := _seconds(told, EventKind.DRAINED)) is not None else ()),
    )
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures)
    return (
        f'<header class="{tone}"><p class="place">{escape(environment)} · {escape(chain)}</p>'
        f"<h1>{escape(rollout.status.capitalize())}</h1>"
        f'<p class="verdict">{escape(messages.why(rollout))}</p>'
        f"<p>Release <code>{rollout.release}</code> against <code>{rollout.stable}</code>, as "
        f"{escape(str(rollout.body['strategy']).replace('_', '-'))}"
        f"{', for: ' + escape(rollout.body['reason']) if rollout.body['reason'] else ''}.</p>"
        f'<div class="figures">{cells}</div></header>'
    )


def _caveats(told: Told) -> str:
    rollout, said = told.rollout, list(told.rollout.plan.notes)
    if rollout.body["speed"] != 1:
        said.insert(0, f"Minutes passed {rollout.body['speed']:g} times as fast as the contract says: this was a sandbox.")
    unasked = {event.body["reason"] for event in told.of(EventKind.PROBED) if event.body["passed"] is None or event.body["by"] == "nobody"}
    said += [f"Warm-up and golden requests were not asked: {reason}." for reason in sorted(unasked)]
    if not rollout.body.get("answers", {}).get("compared", False):
        said.append(f"No answer was compared while it had traffic: {rollout.body.get('answers', {}).get('reason', 'nobody asked')}.")
    elif rollout.body["policy"].get("trade_gain") is not None and rollout.ticks and not _labelled(told, "labelled"):
        reasons = {(event.body["raw"].get("answers") or {}).get("not_compared") for event in told.of(EventKind.OBSERVED)} - {None}
        why = "; ".join(sorted(map(str, reasons))) or "both versions answered none in a form that can be compared"
        said.append(f"Its contract lets a better version be slower, and no labelled request was compared: {why}.")
    if (rollout.decision or {}).get("unproven"):
        said.append(f"{rollout.decision['unproven']} steps were passed without proof, as the policy allows.")  # type: ignore[index]
    if rollout.user_split:
        share = rollout.user_split.share.whole_percent
        said.append(
            f"Users were divided, not requests: a lasting difference in latency or errors may be one of the {share} % of users who "
            "had the new version, and what it did to users is the experiment's own measure, which is not here."
        )
    if rollout.promote:
        how = "A person ended the experiment and promoted it" if rollout.users_since else "A person promoted it without waiting for proof"
        said.append(f"{how}: {rollout.promote}.")
    unseen = [event.body["reason"] for event in told.of(EventKind.DRAINED) if not event.body["measured"]]
    said += [f"Whether the new version still got requests after the rollback could not be measured: {reason}." for reason in unseen]
    blind = sum(not event.body["raw"].get("answered", True) for event in told.of(EventKind.OBSERVED))
    if blind:
        said.append(f"In {blind} of {rollout.ticks} ticks the metrics could not be read in full; they counted neither way.")
    return f'<ul class="caveats">{"".join(f"<li>{escape(text)}</li>" for text in said)}</ul>' if said else ""


def _traffic(told: Told) -> str:
    steps = [(since, users, copies) for since, users, copies in _steps(told)]
    legend = '<p class="legend"><i class="users"></i> requests of users <i class="copies"></i> copies, whose answers nobody sees</p>'
    return plots.traffic(steps, told.end, _moments(told)) + legend


def _steps(told: Told) -> Iterator[tuple[float, float, float]]:
    """(minutes, users, copies) whenever the live route was read back."""
    intended = told.rollout.before
    yield 0.0, 0.0, 0.0
    for event in told.events:
        if event.kind == EventKind.INTENDED:
            intended = TrafficSplit.read(event.body["division"])
        elif event.kind in (EventKind.APPLIED, EventKind.SHIFTED):
            canary = intended.arm(ArmRole.CANARY)
            alone = intended.weight(told.rollout.release, ArmRole.STABLE)
            users = intended.user_split.share if intended.user_split else canary.weight if canary else alone
            yield told.minutes(event.time), users.fraction, intended.mirror.share.fraction if intended.mirror else 0.0


def _held(told: Told) -> Iterator[tuple[float, float, float]]:
    steps = list(_steps(told))
    proven = next(
        (told.minutes(e.time) for e in told.of(EventKind.OBSERVED) if e.body["decision"]["phase"] in ("baking", "done")), told.end
    )
    for number, (since, users, _) in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else told.end
        if since < proven:
            yield since, min(until, proven), users


def _signals(told: Told) -> Iterator[str]:
    ticks = list(told.of(EventKind.OBSERVED))
    if not ticks:
        yield "<p>No tick was observed: it ended before there was any traffic to judge.</p>"
        return
    speed = float(told.rollout.body["speed"])
    times = [told.minutes(event.time) for event in ticks]
    yield (
        '<p class="legend"><i class="against"></i> evidence against the new version <i class="proof"></i> proof for it, anew at each '
        "weight. Each is drawn by its logarithm, from saying nothing to the line at which it decides.</p>"
    )
    for name in ticks[-1].body["decision"]["signals"]:
        signals = [event.body["decision"]["signals"].get(name) for event in ticks]
        last = signals[-1]
        if all(s is None or (s["verdict"] == "NO_DATA" and (s["evidence"] or 0) <= 1) for s in signals):
            yield f'<h3>{escape(name)} <small>no data</small></h3><p class="quiet">{escape(_SIGNALS.get(name, ""))} Nothing was counted.</p>'
            continue
        against = plots.PlottedSeries(times=times, values=[_number(s, "evidence") for s in signals], bound=float(last["bound"]))
        proofs = list(_proofs(told, name))
        worst = max((v for v in against.values if v is not None), default=0.0)
        if worst <= 1.0 and not proofs:
            yield f'<h3>{escape(name)} <small>nothing against it</small></h3><p class="quiet">{escape(_SIGNALS.get(name, ""))}</p>'
            continue
        figure = f"at most {worst:.3g} of {against.bound:.0f} against it"
        yield (
            f"<h3>{escape(name)} <small>{escape(last['verdict'].replace('_', ' ').lower())} · {figure}</small></h3>"
            f'<p class="quiet">{escape(_SIGNALS.get(name, ""))}</p>{plots.evidence(against, proofs, told.end, _moments(told))}'
        )
    if speed != 1:
        yield f'<p class="quiet">The axis is real time; a tick stands for {told.rollout.body["tick_seconds"]:g} s of the policy.</p>'


def _proofs(told: Told, name: str) -> Iterator[plots.PlottedSeries]:
    """Proof of one signal, a series for each step: it begins anew there, and has another bound."""
    for ticks in _climbed(told):
        signals = [event.body["decision"]["signals"].get(name) for event in ticks]
        values = [_number(signal, "proof") for signal in signals]
        bound = next((float(signal["proof_bound"]) for signal in signals if signal), 1.0)
        if any(value is not None for value in values):
            yield plots.PlottedSeries(times=[told.minutes(event.time) for event in ticks], values=values, bound=bound)


def _climbed(told: Told) -> list[list[Event]]:
    """Ticks by the step that they were of. A decision says the step after it, so its tick belongs to that of the decision before."""
    steps: list[list[Event]] = []
    at, last = told.rollout.body["first"], None
    for event in told.events:
        if event.kind == EventKind.ASKED and event.body["wish"] == OperatorRequest.PROMOTE:
            at = {**at, "phase": "baking"}
        elif event.kind == EventKind.OBSERVED:
            if at["phase"] == "releasing":
                steps = steps if at["stage"] == last and steps else [*steps, []]
                steps[-1].append(event)
                last = at["stage"]
            at = event.body["decision"]
    return steps


def _moments(told: Told) -> Sequence[plots.Moment]:
    kinds = (EventKind.APPLIED, EventKind.SHIFTED, EventKind.ASKED, EventKind.DRIFTED)
    return [plots.Moment(at=told.minutes(e.time), text=messages.said(e) or "") for e in told.events if e.kind in kinds]


def _difference(difference: Mapping[str, Any]) -> str:
    if not difference["changes"]:
        return "<p>Nothing in the contract.</p>"
    rows = "".join(
        f"<tr><td><code>{escape(c['path'])}</code></td><td>{_cell(c['old'])}</td><td>{_cell(c['new'])}</td><td>{escape(c['effect'])}"
        f"{'' if c['release'] else ' <small>(applies without a release)</small>'}</td></tr>"
        for c in difference["changes"]
    )
    sums = "".join(
        f"<tr><td>{escape(s['what'])}</td><td>{_cell(s['old'])}</td><td>{_cell(s['new'])}</td><td>a sum that it moves</td></tr>"
        for s in difference["sums"]
    )
    return f"<table><thead><tr><th>field</th><th>before</th><th>now</th><th>changes</th></tr></thead><tbody>{rows}{sums}</tbody></table>"


def _story(told: Told) -> str:
    rows: list[str] = []
    before = ""
    for event in told.events:
        text = messages.said(event)
        if text is None or text == before:
            continue
        before = text
        tone = {"FAIL": "bad", "NO_DATA": "warn"}.get(event.body.get("decision", {}).get("verdict", ""), "")
        rows.append(
            f'<tr class="{tone}"><td>{_clock(told.minutes(event.time))}</td><td>{event.number}</td><td>{escape(text)}</td>'
            f"<td>{escape(event.actor)}</td></tr>"
        )
    return f'<table class="story"><thead><tr><th>after</th><th>event</th><th></th><th>by</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _facts(chain: str, environment: str, told: Told) -> str:
    rollout = told.rollout
    policy = rollout.body["policy"]
    rows = {
        "service": f"{environment}, {chain}",
        "started by": f"{rollout.actor}, {rollout.time}",
        "commit": rollout.body["commit"] or "not given",
        "content of the new release": rollout.digest,
        "content of the stable release": rollout.stable_digest,
        "compared with": "an arm of the stable version of the same size and age"
        if rollout.plan.baseline_arm
        else "the whole stable version",
        "room": rollout.plan.surge.value.replace("_", " "),
        "accepted": f"latency tail +{policy['latency']:.0%}, errors {policy['error_ratio']:g}x or {policy['error_floor']:.2%}, "
        f"answers {policy['mismatch']:.2%}",
        **_trade(told),
        **_experiment(rollout),
        "ruled out before traffic grows": f"latency tail +{policy['latency_unacceptable']:.0%}, errors {policy['error_unacceptable']:.2%}, "
        "wider at small weights",
        "chance that a healthy release is rolled back": f"at most {policy['false_rollback']:.2%} a release",
    }
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f'<table class="facts"><tbody>{cells}</tbody></table>'


def _experiment(rollout: RolloutState) -> dict[str, str]:
    if rollout.user_split is None:
        return {}
    user_split = rollout.user_split
    since = f", from {rollout.users_since} and meant until {rollout.users_end:%Y-%m-%dT%H:%MZ}" if rollout.users_since else ""
    return {
        "experiment": f"{user_split.experiment}: {user_split.share.whole_percent} % of users by their {user_split.user_claim}, by {user_split.hash}{since}"
    }


def _trade(told: Told) -> dict[str, str]:
    policy = told.rollout.body["policy"]
    if policy.get("trade_gain") is None:
        return {}
    gain = f"by more than {100 * policy['trade_gain']:.3g} points"
    labelled, new, stable = (_labelled(told, name) for name in ("labelled", "only_canary_right", "only_stable_right"))
    return {
        "accepted of a better version": f"latency tail +{policy['trade_latency']:.0%}, once it answers labelled requests better {gain}",
        "labelled requests": f"{labelled} compared; right by the new version alone {new}, by the stable one alone {stable}",
    }


def _labelled(told: Told, name: str) -> int:
    return sum(int((event.body["raw"].get("answers") or {}).get(name, 0)) for event in told.of(EventKind.OBSERVED))


def _footer(chain: str, told: Told) -> str:
    head, name = told.events[-1], escape(chain)
    return (
        f"<footer>Read from the release ledger of {name}, events {told.rollout.number} to {head.number}. Newest event "
        f"<code>{head.hash}</code>. <code>headway release verify {name}</code> makes every decision again from the counters that were "
        "saved; with <code>--head</code> and the hash of the newest event it also finds events cut off the end.</footer>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _cell(value: str | None) -> str:
    return "<small>none</small>" if value is None else f"<code>{escape(value)}</code>"


def _number(signal: Mapping[str, Any] | None, name: str) -> float | None:
    value = signal[name] if signal else None
    return None if value is None else float(value)


def _seconds(told: Told, kind: EventKind) -> float | None:
    found = [float(event.body["seconds"]) for event in told.of(kind) if event.body.get("measured", True)]
    return found[-1] if found else None


def _spent(minutes: float) -> str:
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{int(minutes) // 60} h {int(minutes) % 60:02d} min"


def _clock(minutes: float) -> str:
    seconds = round(minutes * 60)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
