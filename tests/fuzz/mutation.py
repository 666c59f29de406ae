"""Changes of documents by what they say, where changes of bytes would mostly make no document at all."""

import copy
import json
import random
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 0.0, -0.5, 1e308, 1e17, "", " ", "0", "-1", "1e9", "NaN", "inf", "0%", "1us", "²", "1_0",
    "99999d", "1Ki", "\x00", "\u202e", "名前", "a" * 5000, "../..", "{{x}}", "\n", "s3://x/y/", "sha256:0", "null", "~", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "2024-02-30", "http://[", "http://\x7f/", "http://" + "a" * 70 + ".b", "file:///etc/hostname", "a:b", "{", "[[", "!!binary x",
    [], {}, [[]], [None], {"": ""}, {"x": {"y": []}}, ["a"] * 300, [0] * 300,
)  # fmt: skip


def places(node: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path for key, value in inside for path in ((*above, key), *places(value, (*above, key)))]


def changed(data: Any, chance: random.Random) -> Any:
    """`data` with one to four changes: odd values, keys that go or come, branches from elsewhere in it, texts with a piece of an odd one."""
    result = copy.deepcopy(data)
    for _ in range(chance.randint(1, 4)):
        found = places(result)
        if not found:
            return copy.deepcopy(chance.choice(ODD))
        *above, last = chance.choice(found)
        target: Any = result
        for key in above:
            target = target[key]
        match chance.randrange(6):
            case 0:
                target[last] = copy.deepcopy(chance.choice(ODD))
            case 1:
                del target[last]
            case 2:
                other: Any = data
                for key in chance.choice(places(data)):
                    other = other[key]
                target[last] = copy.deepcopy(other)
            case 3 if isinstance(target, dict):
                target[str(chance.choice(ODD))] = copy.deepcopy(target[last])
            case 4 if isinstance(target, list):
                target.extend([copy.deepcopy(target[last])] * chance.choice((1, 2, 40)))
            case _ if isinstance(target[last], str):
                cut = chance.randint(0, len(target[last]))
                target[last] = target[last][:cut] + str(chance.choice(ODD))[:200] + target[last][cut + chance.randint(0, 3) :]
            case _:
                target[last] = str(target[last])[:200]
    return result


def changed_text(data: bytes, chance: random.Random) -> bytes:
    """`data` with some bytes changed, taken out, put in or said twice."""
    text = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(text))
        match chance.randrange(4):
            case 0:
                text[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del text[at : at + chance.randint(1, 8)]
            case 2:
                text[at:at] = str(chance.choice(ODD)).encode()[:200]
            case _:
                text[at:at] = text[at : at + chance.randint(1, 40)] * chance.choice((1, 3, 100))
    return bytes(text)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """`data` changed as a document where it is one, or each of its lines is, and as bytes now and then."""
    lines = data.split(b"\n")
    if chance.random() < 0.25:
        return changed_text(data, chance)
    number = chance.randrange(len(lines))
    for whole, rest in ((data, None), (lines[number], lines)):
        try:
            text = json.dumps(changed(json.loads(whole), chance)).encode()
        except (ValueError, RecursionError):
            continue
        return text if rest is None else b"\n".join([*lines[:number], text, *lines[number + 1 :]])
    return changed_text(data, chance)
