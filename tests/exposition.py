"""A page in Prometheus' text format, as tests compare it."""

from prometheus_client.parser import text_string_to_metric_families


def samples(text: str) -> dict[str, float]:
    """Every value by its name and labels."""
    return {
        " ".join((sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items())))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
