"""What is known of a version since its promotion, on the page about its release. Pure."""

from html import escape

from headway.release.evaluation.standing import VersionStanding
from headway.release.evaluator import drift_words, words
from headway.release.evaluator.after_promotion import AfterPromotion


def after_promotion(since: AfterPromotion) -> str:
    """Its labelled answers, then what its users send and get."""
    drift = f"<p>{escape(drift_words.told(since.drift))}</p>" if since.drift else ""
    return (_answers(since.answers) if since.answers else "") + drift


def _answers(standing: VersionStanding) -> str:
    """The whole set and each slice, and what follows from a loss."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{stream.wrong:,} of {stream.asked:,}</td><td>{stream.accepted * 100:.3g} %</td>"
        f"<td>{stream.value:.3g}</td></tr>"
        for name, stream in standing.streams.items()
    )
    head = "<tr><th>labelled requests</th><th>wrong</th><th>may be</th><th>evidence against it</th></tr>"
    said = f"<p>{escape(words.reason(standing) or 'No loss is proven.')} {escape(words.counted(standing))}</p>"
    return f'{said}<table class="facts"><tbody>{head}{rows}</tbody></table>'
