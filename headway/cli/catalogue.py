"""The commands of `headway`: where each is, what it does in a few words, how people sort them, and how they are typed.

Read before any command is loaded, so that `headway --help` and the one command that runs pay for nothing else.
"""

from dataclasses import dataclass
from enum import StrEnum

from headway.wire import ARTIFACT_CACHE_COMMAND, ENDPOINT_PICKER_COMMAND


class CommandGroup(StrEnum):
    """Who uses a command, and when; in the order in which help shows them."""

    CONTRACTS = "Contracts"
    RELEASES = "Releases"
    ENVIRONMENT = "An environment"
    HERE = "On this machine"
    OPERATORS = "Operators: nodes, and the loops that run in a cluster"


@dataclass(frozen=True)
class CommandEntry:
    """A command: a function or a `typer.Typer`, named `attribute`, of `module`. `says` is what help shows of it in a line."""

    group: CommandGroup
    module: str
    attribute: str
    says: str


def for_example(*lines: str) -> str:
    """The end of a command's help."""
    return "\b\nFor example:\n" + "\n".join(f"  {line}" for line in lines)


_C, _R, _E, _O = CommandGroup.CONTRACTS, CommandGroup.RELEASES, CommandGroup.ENVIRONMENT, CommandGroup.OPERATORS

CATALOGUE = {
    "new": CommandEntry(_C, "headway.cli.starters", "app", "write a commented tenant or model to begin with"),
    "check": CommandEntry(_C, "headway.cli.contracts", "check", "show every problem of contracts, with its remedy"),
    "diff": CommandEntry(_C, "headway.cli.contracts", "diff", "show what changed, and what needs a new release"),
    "artifact": CommandEntry(_C, "headway.cli.artifact", "app", "describe the files of a model, and upload them"),
    "golden": CommandEntry(_C, "headway.cli.golden", "golden", "print a golden request, as a caller sends it"),
    "backtest": CommandEntry(_C, "headway.cli.backtest", "backtest", "rehearse releases on a model's own history"),
    "schema": CommandEntry(_C, "headway.cli.contracts", "schema", "print the JSON Schema of contracts, for editors"),
    "status": CommandEntry(_R, "headway.cli.status", "status", "show what serves, how well, and why something is missing"),
    "diagnose": CommandEntry(_R, "headway.cli.diagnose", "diagnose", "say why a service hurts, and what to do"),
    "incident": CommandEntry(_R, "headway.cli.incident", "app", "keep what is known of an incident, for the post-mortem"),
    "logs": CommandEntry(_R, "headway.cli.logs", "logs", "print what a tenant's containers print"),
    "release": CommandEntry(_R, "headway.cli.release", "app", "start, watch, hold and end releases; what became of them"),
    "evaluate": CommandEntry(_R, "headway.cli.evaluate", "evaluate", "ask what serves labelled requests, and go back if it lost"),
    "drift": CommandEntry(_R, "headway.cli.drift", "drift", "say whether users' requests or answers drifted"),
    "doctor": CommandEntry(_E, "headway.cli.doctor", "doctor", "say what would stop the first apply"),
    "verify": CommandEntry(_E, "headway.cli.verify", "app", "show that an environment does what it promises"),
    "cost": CommandEntry(_E, "headway.cli.cost", "cost", "say what an environment costs a month"),
    "policies": CommandEntry(_E, "headway.cli.policies", "policies", "list the rules for resources, or explain one"),
    "access": CommandEntry(_E, "headway.cli.access", "access", "show who may do what"),
    "certificate": CommandEntry(_E, "headway.cli.certificate", "app", "check the model gateway's certificate"),
    "mirror": CommandEntry(_E, "headway.cli.mirror", "mirror", "list charts and images, or fill your registry with them"),
    "leftovers": CommandEntry(_E, "headway.cli.leftovers", "leftovers", "list what AWS still holds of what was destroyed"),
    "nodes": CommandEntry(_O, "headway.cli.nodes", "app", "show GPU nodes, quarantine one, let it back"),
    "loops": CommandEntry(_O, "headway.cli.loops", "app", "the platform's loops: make and push their image, hold requests"),
    ARTIFACT_CACHE_COMMAND: CommandEntry(_O, "headway.cli.artifact_cache", "artifact_cache", "keep artifacts on a node (a loop)"),
    ENDPOINT_PICKER_COMMAND: CommandEntry(_O, "headway.cli.endpoint_picker", "endpoint_picker", "pick the engine of each prompt (a loop)"),
}

EXAMPLES = {
    "new tenant": ("headway new tenant acme",),
    "new model": ("headway new model acme faces --runtime triton",),
    "check": ("headway check", "headway check tenants/vision -e prod --explain"),
    "diff": ("headway diff", "headway diff tenants/vision --against main"),
    "artifact": ("headway artifact ~/models/defects",),
    "artifact describe": ("headway artifact ~/models/defects",),
    "artifact push": ("headway artifact push ~/models/defects vision/defects/2026.11.2 -e staging",),
    "golden": ("headway golden tenants/assist/chat.yaml",),
    "backtest": ("headway backtest vision/defects --prometheus http://127.0.0.1:9090 --hours 48",),
    "schema": ("headway schema model > model.schema.json",),
    "status": ("headway status -e prod", "headway status vision/defects -e prod --watch"),
    "diagnose": ("headway diagnose -e prod", "headway diagnose vision/defects -e prod --since 6h -o html > diagnosis.html"),
    "incident capture": (
        "headway incident capture vision/defects -e prod --out incident",
        "headway incident capture vision/defects -e prod --out incident --freeze",
    ),
    "incident verify": ("headway incident verify incident",),
    "logs": ("headway logs vision/defects -e prod --since 15m", "headway logs vision -e prod -f"),
    "release start": ('headway release start vision/defects -e prod --reason "half the size"',),
    "release resume": ("headway release resume vision/defects -e prod",),
    "release watch": ("headway release watch vision/defects -e prod",),
    "release freeze": ('headway release freeze vision/defects -e prod --reason "latency rises"',),
    "release promote": ('headway release promote vision/defects -e prod --reason "conversion rose"',),
    "release rollback": ('headway release rollback vision/defects -e prod --reason "wrong answers"',),
    "release status": ("headway release status -e prod", "headway release status vision/defects -e prod"),
    "release history": ("headway release history vision/defects -e prod",),
    "release report": (
        "headway release report vision/defects -e prod --out report.html",
        "headway release report vision/defects -e prod --picture --out release.png",
    ),
    "release verify": ("headway release verify vision/defects -e prod",),
    "release copy": ("headway release copy -e prod --to s3://example-copy",),
    "release accept": ('headway release accept vision/defects -e prod --reason "restored from the copy of noon"',),
    "release bind": ("headway release bind vision/defects -e prod",),
    "release assign": ("headway release assign vision/defects carol -e prod",),
    "release guard": ("headway release guard vision -e prod",),
    "evaluate": ("headway evaluate vision/embeddings -e prod", "headway evaluate -e prod --watch"),
    "drift": ("headway drift vision/defects -e prod", "headway drift -e prod --watch"),
    "doctor": ("headway doctor -e prod",),
    "verify": ("headway verify -e prod", "headway verify -e prod --only dns"),
    "verify checks": ("headway verify checks",),
    "verify show": ("headway verify show -e prod",),
    "cost": ("headway cost -e prod --use nat=2Ti",),
    "policies": ("headway policies", "headway policies image-by-digest"),
    "access": ("headway access prod",),
    "certificate names": ("headway certificate names -e prod",),
    "certificate check": ("headway certificate check tls.crt -e prod",),
    "mirror": ("headway mirror", "headway mirror --pin", "headway mirror --push registry.example.com/platform"),
    "leftovers": ("headway leftovers -e dev", "headway leftovers -e dev --tenant hello"),
    "nodes": ("headway nodes",),
    "nodes quarantine": ('headway nodes quarantine NODE --reason "slow"',),
    "nodes release": ("headway nodes release NODE",),
    "nodes watch": ("headway nodes watch --once",),
    "nodes check": ("headway nodes check --wait 60",),
    "loops push": (f"headway loops push -e prod --base docker.io/library/python:3.13-slim@sha256:{'0' * 64}",),
    "loops activate": ("headway loops activate --serve 127.0.0.1:8080 --show 127.0.0.1:8081",),
    "loops diagnose": ("headway loops diagnose -e sandbox --serve 127.0.0.1:8080",),
    ARTIFACT_CACHE_COMMAND: (f"headway {ARTIFACT_CACHE_COMMAND} --pool l4 --folder /var/cache/headway --room 500000000000",),
    ENDPOINT_PICKER_COMMAND: (f"headway {ENDPOINT_PICKER_COMMAND} --serve 127.0.0.1:9002 --metrics 127.0.0.1:9090",),
}
"""How each command is typed, by its words; a test gives every line to the parser."""
