"""How the gateway divides a model's requests among the replicas of a release."""

from enum import StrEnum, unique


@unique
class Routing(StrEnum):
    LEAST_REQUESTS = "least_requests"
    ENDPOINT_PICKER = "endpoint_picker"
