"""A store in memory into which somebody puts, changes and deletes whatever he likes."""

from headway.ledger.events import digest
from headway.ledger.store import Written
from tests.unit.release_kill import Shelf


class Bucket(Shelf):
    """Notes all that was ever written, for a hash names one content; a versioned one remembers it by key too."""

    def __init__(self, *, versioned: bool) -> None:
        super().__init__()
        self.ever: dict[str, bytes] = {}
        self.versions: dict[str, list[bytes]] = {}
        self._versioned = versioned

    def create(self, key: str, body: bytes) -> None:
        super().create(key, body)
        self.ever[digest(body)] = body
        self.versions.setdefault(key, []).append(body)

    def put(self, key: str, body: bytes) -> None:
        """Whatever is there."""
        self.objects.pop(key, None)
        self.create(key, body)

    def get(self, key: str, version: str = "") -> bytes | None:
        return self.versions[key][int(version)] if version else super().get(key)

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        if not self._versioned:
            return super().written(prefix, after)
        keys = sorted(key for key in self.versions if key.startswith(prefix) and key > after)
        return tuple(Written(key, tuple(map(str, range(len(self.versions[key])))), key in self.objects) for key in keys)
