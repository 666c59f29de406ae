"""What the loop of `headway evaluate` says of versions that serve, and its silence, as alerts."""

from components.observability.alert import Alert, AlertSeverity, FailureLayer

SILENT_SECONDS = 1800
"""Without a look that ended well; one is tried each minute."""

ANSWERS_WORSE = Alert(
    name="AnswersWorse",
    layer=FailureLayer.REQUEST,
    severity=AlertSeverity.PAGE,
    expression='label_replace(max by (tenant, model) (headway_evaluation_loss) == 1, "namespace", "$1", "tenant", "(.*)")',
    hold="5m",
    summary="{{ $labels.tenant }}/{{ $labels.model }} is proven to answer worse than its contract accepts, and serves on",
)
EVALUATION_SILENT = Alert(
    name="EvaluationSilent",
    layer=FailureLayer.PLATFORM,
    severity=AlertSeverity.TICKET,
    # Whoever has no users can answer nobody wrongly, and may have no replica to ask.
    expression=(
        f"time() - max by (tenant, model) (max_over_time(headway_evaluation_last_look_timestamp_seconds[6h])) > {SILENT_SECONDS}"
        ' and on (tenant, model) sum by (tenant, model) (headway:request_rate{source="mesh"}) > 0'
    ),
    hold="5m",
    summary="Nobody finds out any more whether {{ $labels.tenant }}/{{ $labels.model }} answers as well as it did",
)
