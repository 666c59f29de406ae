"""The provider that records charts in a sandbox knows those of the platform."""

from components import versions
from pulumi_embedded.providers.kubernetes.charts import CHARTS


def test_every_chart_that_the_platform_installs_is_known() -> None:
    assert {chart.chart for chart in versions.CHARTS} <= set(CHARTS)
