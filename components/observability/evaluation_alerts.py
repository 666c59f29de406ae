"""What the loops of `headway evaluate` and `headway drift` say of versions that serve, and their silence, as alerts."""

from components.observability.alert import Alert, AlertSeverity, FailureLayer

SILENT_SECONDS = 1800
"""Without a look that ended well; one is tried each minute."""

ANSWERS_WORSE = Alert(
    name="AnswersWorse",
    layer=FailureLayer.REQUEST,
    of_one_service=True,
    severity=AlertSeverity.PAGE,
    expression='label_replace(max by (tenant, model) (headway_evaluation_loss) == 1, "namespace", "$1", "tenant", "(.*)")',
    hold="5m",
    summary="{{ $labels.tenant }}/{{ $labels.model }} is proven to answer worse than its contract accepts, and serves on",
)
DRIFT_PROVEN = Alert(
    name="DriftProven",
    layer=FailureLayer.REQUEST,
    of_one_service=True,
    # Other requests are no harm by themselves: whether answers became worse is what AnswersWorse says.
    severity=AlertSeverity.TICKET,
    expression='label_replace(max by (tenant, model) (headway_drift_proven) == 1, "namespace", "$1", "tenant", "(.*)")',
    hold="5m",
    summary=(
        "What users of {{ $labels.tenant }}/{{ $labels.model }} send or get drifted since the promotion; "
        "that is no proof against its version, and a person decides"
    ),
)


def _silent(loop: str) -> str:
    # Whoever has no users can answer nobody wrongly, and may have no replica to ask.
    return (
        f"time() - max by (tenant, model) (max_over_time(headway_{loop}_last_look_timestamp_seconds[6h])) > {SILENT_SECONDS}"
        ' and on (tenant, model) sum by (tenant, model) (headway:request_rate{source="mesh"}) > 0'
    )


EVALUATION_SILENT = Alert(
    name="EvaluationSilent",
    layer=FailureLayer.PLATFORM,
    of_one_service=True,
    severity=AlertSeverity.TICKET,
    expression=_silent("evaluation"),
    hold="5m",
    summary="Nobody finds out any more whether {{ $labels.tenant }}/{{ $labels.model }} answers as well as it did",
)
DRIFT_SILENT = Alert(
    name="DriftSilent",
    layer=FailureLayer.PLATFORM,
    of_one_service=True,
    severity=AlertSeverity.TICKET,
    expression=_silent("drift"),
    hold="5m",
    summary="Nobody finds out any more whether what users of {{ $labels.tenant }}/{{ $labels.model }} send or get drifts",
)
