"""What a version answered after its promotion, as a table of the page about its release. Pure."""

from html import escape

from headway.release.evaluation.standing import VersionStanding
from headway.release.evaluator import words


def answers_table(standing: VersionStanding) -> str:
    """The whole set and each slice, and what follows from a loss."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{stream.wrong:,} of {stream.asked:,}</td><td>{stream.accepted * 100:.3g} %</td>"
        f"<td>{stream.value:.3g}</td></tr>"
        for name, stream in standing.streams.items()
    )
    head = "<tr><th>labelled requests</th><th>wrong</th><th>may be</th><th>evidence against it</th></tr>"
    said = f"<p>{escape(words.reason(standing) or 'No loss is proven.')} {escape(words.counted(standing))}</p>"
    return f'{said}<table class="facts"><tbody>{head}{rows}</tbody></table>'
