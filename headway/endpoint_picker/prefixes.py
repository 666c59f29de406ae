"""Which prompts each endpoint's prefix cache is believed to hold: what was sent there, the least recently used forgotten first, as the engine does.

An engine shares whole blocks of tokens, each only behind the same blocks (vLLM, docs/design/prefix_caching.md). Here a block is a run of the
prompt's bytes instead, since the picker has no tokenizer; its key is a digest of everything up to its end.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from hashlib import blake2b

BLOCK = 64
"""Bytes of a block: about 16 tokens of English, vLLM's block on a GPU."""
LONGEST = 4096
"""Blocks of a prompt that are looked at."""


def keys_of(prompt: bytes, block: int = BLOCK) -> tuple[bytes, ...]:
    """The key of each whole block, from the front."""

    def keys() -> Iterator[bytes]:
        chained = b""
        for end in range(block, min(len(prompt), LONGEST * block) + 1, block):
            chained = blake2b(chained + prompt[end - block : end], digest_size=16).digest()
            yield chained

    return tuple(keys())


class PrefixMemory:
    """What one endpoint is believed to hold."""

    def __init__(self, blocks: int) -> None:
        """`blocks`: how many it can hold."""
        self._blocks = blocks
        self._kept: OrderedDict[Hashable, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def matched(self, keys: Iterable[Hashable]) -> int:
        """Of a prompt's blocks, how many from the front are there."""
        count = 0
        for key in keys:
            if key not in self._kept:
                break
            count += 1
        return count

    def keep(self, keys: Sequence[Hashable]) -> None:
        """A prompt was sent there. Its end is forgotten before its beginning, which others may share."""
        for key in reversed(keys):
            self._kept[key] = None
            self._kept.move_to_end(key)
        self.resize(self._blocks)

    def resize(self, blocks: int) -> None:
        """How many it can hold from now on."""
        self._blocks = blocks
        while len(self._kept) > self._blocks:
            self._kept.popitem(last=False)
