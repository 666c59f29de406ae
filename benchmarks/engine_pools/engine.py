"""One simulated engine: vLLM's scheduler as far as times of first tokens depend on it.

Steps follow one another. A step gives each answer in progress its next token and fills the rest of its budget of tokens with prefill, in order
of arrival and in parts (chunked prefill, on by default: vLLM's page "Optimization and Tuning"). Whole blocks of prompts and answers stay
cached until their place is needed, the least recently used first, the end of a prompt before its beginning (docs/design/prefix_caching.md).
A request waits while its prompt has no place; an answer without place sends the newest request back to the queue, which computes it anew.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK = 16
"""Tokens; vLLM's on a GPU."""
FAR = 1e6


@dataclass(frozen=True)
class Pace:
    """How long a step takes, in seconds: the larger of reading the weights and computing the tokens, and the attention."""

    weights: float
    """Reading the weights, whatever the batch."""
    sequence: float
    """More for each answer in progress."""
    launch: float
    """Before the first token is computed."""
    token: float
    """Computing one token."""
    attended: float
    """One token of prefill looking back at one token."""
    context: float
    """One answer in progress looking back at one token."""
    capacity: int
    """Tokens of the KV cache."""
    budget: int = 8192
    """Tokens of a step: `max_num_batched_tokens`."""
    sequences: int = 256
    """`max_num_seqs`."""

    def step(self, prefill: int, looked_back: int, answers: int, context: int) -> float:
        computed = self.launch + (prefill + answers) * self.token
        return max(self.weights + answers * self.sequence, computed) + looked_back * self.attended + context * self.context


@dataclass(eq=False)
class Job:
    """A request on its way through one engine."""

    number: int
    prompt: int
    """Tokens."""
    output: int
    keys: Sequence[int]
    """Of the whole blocks of prompt and answer, each standing for everything up to its end."""
    arrived: float
    computed: int = 0
    """Tokens of the prompt (and, once it was sent back, of the answer) that are in the cache."""
    made: int = 0
    """Tokens of the answer."""
    shared: int = 0
    """Blocks that were found."""
    began: float | None = None
    own: int = 0
    """Tokens of the prompt that were not found when it was admitted first."""
    first: float | None = None
    ended: float | None = None
    private: int = 0
    """Blocks that are its own until it ends."""

    @property
    def to_compute(self) -> int:
        return self.prompt + self.made - self.computed


@dataclass
class SimulatedEngine:
    pace: Pace
    now: float = 0.0
    waiting: deque[Job] = field(default_factory=deque[Job])
    running: list[Job] = field(default_factory=list[Job])
    news: list[Job] = field(default_factory=list[Job])
    """Requests that have ended."""
    computed: int = 0
    took: float = 0.0
    """As its metrics page has them, of all requests that have ended: tokens of prompts that no cache held, and seconds from the beginning of
    each to its first token."""
    preempted: int = 0
    found: int = 0
    """Tokens of prompts that were in the cache when they were admitted first."""
    _cached: OrderedDict[int, None] = field(default_factory=OrderedDict[int, None])
    """Blocks that nobody uses, the next to go first."""
    _used: dict[int, int] = field(default_factory=dict[int, int])
    """Cached blocks in use, and by how many."""
    _private: int = 0

    def __post_init__(self) -> None:
        self.blocks = self.pace.capacity // BLOCK

    def take(self, job: Job) -> None:
        if not (self.waiting or self.running):
            self.now = max(self.now, job.arrived)
        self.waiting.append(job)

    def advance(self, until: float) -> None:
        """Every step that begins before `until`."""
        while self.now < until and (self.waiting or self.running):
            self._step(until)

    def _free(self) -> int:
        """Blocks that are free or can be."""
        return self.blocks - len(self._used) - self._private

    def _make_room(self) -> None:
        while len(self._cached) + len(self._used) + self._private > self.blocks and self._cached:
            self._cached.popitem(last=False)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.pace.sequences:
            job = self.waiting[0]
            whole = (job.prompt + job.made - 1) // BLOCK  # the last token is always computed
            found = 0
            for key in job.keys[:whole]:
                if key not in self._used and key not in self._cached:
                    break
                found += 1
            needed = -(-(job.prompt + job.made) // BLOCK) - found
            revived = sum(key in self._cached for key in job.keys[:found])
            if needed + revived > self._free():
                return
            for key in job.keys[:found]:
                self._cached.pop(key, None)
                self._used[key] = self._used.get(key, 0) + 1
            job.shared, job.private, job.computed = found, needed, found * BLOCK
            self.found += job.computed if job.first is None else 0
            if job.began is None:
                job.began, job.own = self.now, job.prompt - job.computed
            self._private += needed
            self._make_room()
            self.running.append(self.waiting.popleft())

    def _release(self, job: Job) -> None:
        """Its whole blocks stay cached, the last to go first."""
        self._private -= job.private
        whole = min((job.computed if job.first is None else job.prompt + job.made) // BLOCK, len(job.keys))
        for place in range(whole - 1, -1, -1):
            key = job.keys[place]
            if place < job.shared:
                self._used[key] -= 1
                if self._used[key]:
                    continue
                del self._used[key]
            if key not in self._used:
                self._cached[key] = None
                self._cached.move_to_end(key)
        for key in job.keys[whole : job.shared]:
            self._used[key] -= 1
            if not self._used[key]:
                del self._used[key]
        job.private = job.shared = 0
        self._make_room()

    def _publish(self, job: Job) -> None:
        """What it has computed can be shared from now on."""
        whole = min(job.computed, job.prompt) // BLOCK
        for place in range(job.shared, whole):
            key = job.keys[place]
            if key in self._used:
                self._used[key] += 1
            else:
                self._cached.pop(key, None)
                self._used[key] = 1
            job.private -= 1
            self._private -= 1
        job.shared = max(job.shared, whole)

    def _grow(self, answers: list[Job], steps: int) -> bool:
        """Places for the next tokens of the answers; whether there are enough."""
        needed = [(job, -(-(job.prompt + job.made + steps) // BLOCK) - job.shared - job.private) for job in answers]
        total = sum(max(more, 0) for _, more in needed)
        if total > self._free():
            return False
        for job, more in needed:
            job.private += max(more, 0)
        self._private += total
        self._make_room()
        return True

    def _step(self, until: float) -> None:
        self._admit()
        answers = [job for job in self.running if not job.to_compute]
        while answers and not self._grow(answers, 1):
            newest = self.running.pop()
            self._release(newest)
            newest.computed = 0
            self.waiting.appendleft(newest)
            self.preempted += 1
            answers = [job for job in self.running if not job.to_compute]
        context = sum(job.prompt + job.made for job in answers)
        left, prefill, looked_back = self.pace.budget - len(answers), 0, 0
        filled: list[Job] = []
        for job in self.running:
            part = min(job.to_compute, left)
            if part > 0:
                looked_back += part * job.computed + part * part // 2
                job.computed += part
                left, prefill = left - part, prefill + part
                filled.append(job)
        steps = 1
        if not prefill and answers:  # nothing can be admitted before one of them ends
            a_step = self.pace.step(0, 0, len(answers), context)
            steps = max(1, min(*(job.output - job.made for job in answers), int(min(until - self.now, FAR) / a_step) + 1))
            if steps > 1 and not self._grow(answers, steps):
                steps = 1
        middle = context + len(answers) * (steps - 1) // 2
        self.now += steps * self.pace.step(prefill, looked_back, len(answers), middle)
        for job in filled:
            self._publish(job)
            if not job.to_compute:
                answers.append(job)
                if job.first is None:
                    job.first = self.now
        for job in answers:
            job.made += steps if job not in filled else 1
            job.computed = job.prompt + job.made
        ended = [job for job in answers if job.made >= job.output]
        for job in ended:
            job.ended = self.now
            self.running.remove(job)
            self._release(job)
            self.computed, self.took = self.computed + job.own, self.took + (job.first or 0.0) - (job.began or 0.0)
            self.news.append(job)
