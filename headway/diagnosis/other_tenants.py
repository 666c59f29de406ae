"""What a diagnosis says of other tenants' pods: whose they are, and not how they are called. Pure.

It goes to its tenant's receiver, into reports of releases and captured incidents. Who may list every pod finds the name with the command that
stands below the cause.
"""

import re
from collections.abc import Collection, Iterable, Mapping

_POD = re.compile(r"(?<![\w./-])([a-z0-9][a-z0-9-]*)/[a-z0-9][a-z0-9.-]*")
"""`namespace/name`, as Headway names a pod in a sentence."""


def without_pods(text: str, own: Collection[str]) -> str:
    """The text without names of pods of other namespaces than one's `own`."""
    return _POD.sub(lambda found: found[0] if found[1] in own else f"a pod of {found[1]}", text)


def numbered(pods: Iterable[str], own: Collection[str]) -> Mapping[str, str]:
    """What each `namespace/name` is called: those of other namespaces than one's `own` have numbers."""
    found: dict[str, str] = {}
    count: dict[str, int] = {}
    for pod in sorted(set(pods)):
        namespace = pod.partition("/")[0]
        count[namespace] = count.get(namespace, 0) + 1
        found[pod] = pod if namespace in own else f"pod {count[namespace]} of {namespace}"
    return found
