"""One self-contained HTML page about a release: no script, no font, no image from anywhere else; light and dark by the reader's choice.

Everything on it is read from the ledger, and says where. People decide by this page. So what was not measured,
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
from headway.release.evaluator.after_promotion import AfterPromotion
from headway.release.report import diagnosed, measured, plots, token_figures
from headway.release.report.answers import after_promotion
from headway.release.report.style import STYLE
from headway.release.report.token_figures import TokenSums

_SIGNALS: Mapping[str, str] = {
    "latency": "This signal compares how many requests are slower than each edge of the histogram with the control at the same time.",
    "latency.first_token": "This signal compares the time from a request to the first token of its answer with the control, of streams.",
    "latency.next_token": "This signal compares how long each further token of a stream took, on its average, with the control.",
    "errors": "This signal compares failed requests with the control, and with a floor below which errors do not matter.",
    "correctness": "This signal counts golden answers that differ from the expected ones.",
    "mirrored": "This signal counts answers to copies that differ from what users got for the same requests.",
    "queue": "This signal compares the time that requests wait inside the server with the control.",
    "cost": "This signal compares the GPU time of a request with the control.",
    "catastrophe": "This signal tells whether far more requests fail than of any healthy version, though the control's succeed.",
    "malformed": "This signal counts answers that are empty, no numbers or against their schema; one in a thousand is tolerated.",
    "restarts": "This signal counts minutes in which containers of the new version restarted; one a day is tolerated.",
    "memory": "This signal fails when GPU memory is at its limit, and the control's is not. Where it rises towards it, the weight stays.",
    "share": "This signal tells whether the new version receives the share of requests that it should. It never rolls back; while the share "
    "is wrong, no tick counts as evidence. Where users are divided it says nothing, because a few users may make most requests.",
}
TONES = {
    ReleaseOutcome.PROMOTED: "good",
    ReleaseOutcome.ROLLED_BACK: "bad",
    ReleaseOutcome.OUT_OF_TIME: "warn",
    ReleaseOutcome.REFUSED: "warn",
}


@dataclass(frozen=True, kw_only=True)
class ReportedRelease:
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


def html(chain: str, environment: str, rollout: RolloutState, events: Sequence[Event], since: AfterPromotion | None = None) -> str:
    """The page. `events` are the chain's; `since`: what is known of the release since its promotion."""
    reported = ReportedRelease(rollout=rollout, events=about(rollout, events))
    parts = [
        _head(chain, environment, reported),
        _caveats(reported),
        _section("Traffic", _traffic(reported)),
        _section("Measured", _measured(reported)),
        _section("Evidence", "".join(_signals(reported))),
        _section("Diagnosis", diagnosed.html(rollout)) if diagnosed.known(rollout) else "",
        _section("What changed", _difference(rollout.body["difference"])),
        _section("What happened", _story(reported)),
        _section("After the promotion", after_promotion(since)) if since and since.known else "",
        _section("Who, what, on which numbers", _facts(chain, environment, reported)),
        _footer(chain, reported),
    ]
    title = f"{chain} {rollout.release}: {rollout.status}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def about(rollout: RolloutState, events: Sequence[Event]) -> tuple[Event, ...]:
    """The events of one release: from its beginning to its end."""
    own: list[Event] = []
    for event in events[rollout.number - 1 :]:
        own.append(event)
        if event.kind == EventKind.ENDED:
            break
    return tuple(own)


def _head(chain: str, environment: str, reported: ReportedRelease) -> str:
    rollout = reported.rollout
    tone = TONES.get(rollout.outcome, "open") if rollout.outcome else "open"
    duration = spent(reported.end)
    exposed = sum(users * (until - since) for since, until, users in _held(reported))
    figures = (
        ("from start to end" if rollout.over else "so far", duration),
        ("ticks of evidence", str(rollout.ticks)),
        ("full-traffic equivalent before proof", f"{exposed:.2g} min"),
        *((("traffic back after", f"{s:.1f} s"),) if (s := _seconds(reported, EventKind.SHIFTED)) is not None else ()),
        *((("without requests after", f"{s:.1f} s"),) if (s := _seconds(reported, EventKind.DRAINED)) is not None else ()),
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


def _caveats(reported: ReportedRelease) -> str:
    rollout, caveats = reported.rollout, list(reported.rollout.plan.notes)
    if rollout.body["speed"] != 1:
        caveats.insert(
            0, f"This release ran in a sandbox, where minutes passed {rollout.body['speed']:g} times as fast as the contract says."
        )
    unasked = {
        event.body["reason"] for event in reported.of(EventKind.PROBED) if event.body["passed"] is None or event.body["by"] == "nobody"
    }
    caveats += [f"Warm-up and golden requests were not sent: {reason}." for reason in sorted(unasked)]
    if not rollout.body.get("answers", {}).get("compared", False):
        caveats.append(
            f"No answer was compared while the new version had traffic: {rollout.body.get('answers', {}).get('reason', 'nobody asked')}."
        )
    elif rollout.body["policy"].get("trade_gain") is not None and rollout.ticks and not _labelled(reported, "labelled"):
        reasons = {(event.body["raw"].get("answers") or {}).get("not_compared") for event in reported.of(EventKind.OBSERVED)} - {None}
        why = "; ".join(sorted(map(str, reasons))) or "neither version gave an answer in a form that can be compared"
        caveats.append(f"The contract lets a better version be slower, but no labelled request was compared: {why}.")
    if (rollout.decision or {}).get("unproven"):
        caveats.append(f"{rollout.decision['unproven']} steps were passed without proof, which the policy allows.")  # type: ignore[index]
    if rollout.user_split:
        share = rollout.user_split.share.whole_percent
        caveats.append(
            f"Users were divided, not requests. A lasting difference in latency or errors may come from the {share} % of users who had "
            "the new version. What the version did for its users is measured by the experiment itself, and is not on this page."
        )
    if rollout.promote:
        how = "A person ended the experiment and promoted it" if rollout.users_since else "A person promoted it without waiting for proof"
        caveats.append(f"{how}: {rollout.promote}.")
    unseen = [event.body["reason"] for event in reported.of(EventKind.DRAINED) if not event.body["measured"]]
    caveats += [f"Whether the new version still got requests after the rollback could not be measured: {reason}." for reason in unseen]
    blind = sum(not event.body["raw"].get("answered", True) for event in reported.of(EventKind.OBSERVED))
    if blind:
        caveats.append(
            f"In {blind} of {rollout.ticks} ticks the metrics could not be read completely. These ticks count neither for nor against the version."
        )
    return f'<ul class="caveats">{"".join(f"<li>{escape(text)}</li>" for text in caveats)}</ul>' if caveats else ""


def _traffic(reported: ReportedRelease) -> str:
    steps = list(steps_of(reported))
    legend = '<p class="legend"><i class="users"></i> requests of users <i class="copies"></i> copies (their answers are thrown away)</p>'
    return plots.traffic(steps, reported.end, _moments(reported)) + legend


def steps_of(reported: ReportedRelease) -> Iterator[tuple[float, float, float]]:
    """(minutes, users, copies) whenever the live route was read back."""
    intended = reported.rollout.before
    yield 0.0, 0.0, 0.0
    for event in reported.events:
        if event.kind == EventKind.INTENDED:
            intended = TrafficSplit.read(event.body["division"])
        elif event.kind in (EventKind.APPLIED, EventKind.SHIFTED):
            canary = intended.arm(ArmRole.CANARY)
            alone = intended.weight(reported.rollout.release, ArmRole.STABLE)
            users = intended.user_split.share if intended.user_split else canary.weight if canary else alone
            yield reported.minutes(event.time), users.fraction, intended.mirror.share.fraction if intended.mirror else 0.0


def _held(reported: ReportedRelease) -> Iterator[tuple[float, float, float]]:
    steps = list(steps_of(reported))
    proven = next(
        (reported.minutes(e.time) for e in reported.of(EventKind.OBSERVED) if e.body["decision"]["phase"] in ("baking", "done")),
        reported.end,
    )
    for number, (since, users, _) in enumerate(steps):
        until = steps[number + 1][0] if number + 1 < len(steps) else reported.end
        if since < proven:
            yield since, min(until, proven), users


def _measured(reported: ReportedRelease) -> str:
    """Both versions' figures with their limits, as of the newest tick."""
    figures = measured.figures_of(reported.events)
    found = measured.signals(figures)
    if not found:
        return "<p>No tick counted as evidence.</p>"
    rows = "".join(
        f"<tr><td>{escape(one.name)} <small>{escape(one.figure)}</small></td><td>{escape(one.said(one.new))}</td>"
        f"<td>{escape(one.said(one.stable))}{' <small>before</small>' if one.earlier else ''}</td><td>{escape(one.said(one.limit))}</td>"
        f"<td>{'' if one.n is None else f'{one.n:,}'}</td></tr>"
        for one in found.values()
    )
    return (
        f'<p class="quiet">Rates, means and quantiles {escape(messages.at_which(figures.where))}. {figures.remark} A release is decided by the '
        "evidence below, which also weighs how many requests stand behind them.</p><table><thead><tr><th>signal</th><th>new version</th>"
        f"<th>stable version</th><th>limit</th><th>requests or answers</th></tr></thead><tbody>{rows}</tbody></table>{_tokens(figures)}"
    )


def _tokens(figures: measured.ReleaseFigures) -> str:
    """Of a language model: what is measured of tokens, by which nothing is decided."""
    new, stable = figures.tokens.get("new", TokenSums()), figures.control_tokens
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{ours}</td><td>{theirs}</td></tr>" for name, ours, theirs in token_figures.rows(new, stable)
    )
    if not rows:
        return ""
    remark = escape(token_figures.remark(new, stable))
    return (
        f'<p class="quiet">Of tokens, as the servers say, golden requests included. Nothing is decided by these. {remark}</p><table><thead><tr>'
        f"<th>of tokens</th><th>new version</th><th>stable version</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _signals(reported: ReportedRelease) -> Iterator[str]:
    ticks = list(reported.of(EventKind.OBSERVED))
    if not ticks:
        yield "<p>No tick was observed. The release ended before there was any traffic to judge.</p>"
        return
    speed = float(reported.rollout.body["speed"])
    times = [reported.minutes(event.time) for event in ticks]
    yield (
        '<p class="legend"><i class="against"></i> evidence against the new version <i class="proof"></i> proof for the new version, which '
        "begins anew at each weight. Both are drawn on a logarithmic scale, from saying nothing to the line at which they decide.</p>"
    )
    for name in ticks[-1].body["decision"]["signals"]:
        signals = [event.body["decision"]["signals"].get(name) for event in ticks]
        last = signals[-1]
        if all(s is None or (s["verdict"] == "NO_DATA" and (s["evidence"] or 0) <= 1) for s in signals):
            yield f'<h3>{escape(name)} <small>no data</small></h3><p class="quiet">{escape(_SIGNALS.get(name, ""))} Nothing was counted for it.</p>'
            continue
        against = plots.PlottedSeries(times=times, values=[_number(s, "evidence") for s in signals], bound=float(last["bound"]))
        proofs = list(_proofs(reported, name))
        worst = max((v for v in against.values if v is not None), default=0.0)
        if worst <= 1.0 and not proofs:
            yield f'<h3>{escape(name)} <small>no evidence against the new version</small></h3><p class="quiet">{escape(_SIGNALS.get(name, ""))}</p>'
            continue
        figure = f"evidence against the new version at most {worst:.3g} of {against.bound:.0f}"
        yield (
            f"<h3>{escape(name)} <small>{escape(last['verdict'].replace('_', ' ').lower())} · {figure}</small></h3>"
            f'<p class="quiet">{escape(_SIGNALS.get(name, ""))}</p>{plots.evidence(against, proofs, reported.end, _moments(reported))}'
        )
    if speed != 1:
        yield f'<p class="quiet">The axis shows real time. A tick stands for {reported.rollout.body["tick_seconds"]:g} s of the policy.</p>'


def _proofs(reported: ReportedRelease, name: str) -> Iterator[plots.PlottedSeries]:
    """Proof of one signal, a series for each step: it begins anew there, and has another bound."""
    for ticks in _climbed(reported):
        signals = [event.body["decision"]["signals"].get(name) for event in ticks]
        values = [_number(signal, "proof") for signal in signals]
        bound = next((float(signal["proof_bound"]) for signal in signals if signal), 1.0)
        if any(value is not None for value in values):
            yield plots.PlottedSeries(times=[reported.minutes(event.time) for event in ticks], values=values, bound=bound)


def _climbed(reported: ReportedRelease) -> list[list[Event]]:
    """Ticks by the step that they were of. A decision says the step after it, so its tick belongs to that of the decision before."""
    steps: list[list[Event]] = []
    at, last = reported.rollout.body["first"], None
    for event in reported.events:
        if event.kind == EventKind.ASKED and event.body["wish"] == OperatorRequest.PROMOTE:
            at = {**at, "phase": "baking"}
        elif event.kind == EventKind.OBSERVED:
            if at["phase"] in ("releasing", "baking"):
                step = (at["phase"], at["stage"])
                steps = steps if step == last and steps else [*steps, []]
                steps[-1].append(event)
                last = step
            at = event.body["decision"]
    return steps


def _moments(reported: ReportedRelease) -> Sequence[plots.Moment]:
    kinds = (EventKind.APPLIED, EventKind.SHIFTED, EventKind.ASKED, EventKind.DRIFTED)
    return [plots.Moment(at=reported.minutes(e.time), text=messages.said(e) or "") for e in reported.events if e.kind in kinds]


def _difference(difference: Mapping[str, Any]) -> str:
    if not difference["changes"]:
        return "<p>Nothing in the contract changed.</p>"
    rows = "".join(
        f"<tr><td><code>{escape(c['path'])}</code></td><td>{_cell(c['old'])}</td><td>{_cell(c['new'])}</td><td>{escape(c['effect'])}"
        f"{'' if c['release'] else ' <small>(applies without a release)</small>'}</td></tr>"
        for c in difference["changes"]
    )
    sums = "".join(
        f"<tr><td>{escape(s['what'])}</td><td>{_cell(s['old'])}</td><td>{_cell(s['new'])}</td><td>a total that this changes</td></tr>"
        for s in difference["sums"]
    )
    return f"<table><thead><tr><th>field</th><th>before</th><th>now</th><th>changes</th></tr></thead><tbody>{rows}{sums}</tbody></table>"


def _story(reported: ReportedRelease) -> str:
    rows: list[str] = []
    before = ""
    for event in reported.events:
        text = messages.said(event)
        if text is None or text == before:
            continue
        before = text
        tone = {"FAIL": "bad", "NO_DATA": "warn"}.get(event.body.get("decision", {}).get("verdict", ""), "")
        rows.append(
            f'<tr class="{tone}"><td>{_clock(reported.minutes(event.time))}</td><td>{event.number}</td><td>{escape(text)}</td>'
            f"<td>{escape(event.actor)}</td></tr>"
        )
    return f'<table class="story"><thead><tr><th>after</th><th>event</th><th></th><th>by</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _facts(chain: str, environment: str, reported: ReportedRelease) -> str:
    rollout = reported.rollout
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
        "capacity": rollout.plan.surge.value.replace("_", " "),
        "tolerated": f"latency tail +{policy['latency']:.0%}, errors {policy['error_ratio']:g}x or {policy['error_floor']:.2%}, "
        f"answers {policy['mismatch']:.2%}",
        **_trade(reported),
        **_experiment(rollout),
        "must be ruled out before traffic grows": f"latency tail +{policy['latency_unacceptable']:.0%}, errors {policy['error_unacceptable']:.2%}, "
        "with wider margins at small weights",
        "probability that a healthy release is rolled back": f"at most {policy['false_rollback']:.2%}",
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


def _trade(reported: ReportedRelease) -> dict[str, str]:
    policy = reported.rollout.body["policy"]
    if policy.get("trade_gain") is None:
        return {}
    gain = f"by more than {100 * policy['trade_gain']:.3g} points"
    labelled, new, stable = (_labelled(reported, name) for name in ("labelled", "only_canary_right", "only_stable_right"))
    return {
        "tolerated of a better version": f"latency tail +{policy['trade_latency']:.0%}, once it answers labelled requests right more often, {gain}",
        "labelled requests": f"{labelled} compared; only the new version was right in {new}, only the stable version in {stable}",
    }


def _labelled(reported: ReportedRelease, name: str) -> int:
    return sum(int((event.body["raw"].get("answers") or {}).get(name, 0)) for event in reported.of(EventKind.OBSERVED))


def _footer(chain: str, reported: ReportedRelease) -> str:
    head, name = reported.events[-1], escape(chain)
    return (
        f"<footer>This page was read from the release ledger of {name}, events {reported.rollout.number} to {head.number}. The hash of the newest event is "
        f"<code>{head.hash}</code>. <code>headway release verify {name}</code> makes every decision again from the saved "
        "counters. With <code>--head</code> and the hash of the newest event it also finds out whether events are missing at the end.</footer>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _cell(value: str | None) -> str:
    return "<small>none</small>" if value is None else f"<code>{escape(value)}</code>"


def _number(signal: Mapping[str, Any] | None, name: str) -> float | None:
    value = signal[name] if signal else None
    return None if value is None else float(value)


def _seconds(reported: ReportedRelease, kind: EventKind) -> float | None:
    found = [float(event.body["seconds"]) for event in reported.of(kind) if event.body.get("measured", True)]
    return found[-1] if found else None


def spent(minutes: float) -> str:
    """`42 s`, `7 min`, `3 h 05 min`."""
    if minutes < 1:
        return f"{minutes * 60:.0f} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{int(minutes) // 60} h {int(minutes) % 60:02d} min"


def _clock(minutes: float) -> str:
    seconds = round(minutes * 60)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
