"""Trains the sandbox's language model: `python3 train.py FOLDER`, with the Python of vLLM's environment (`.venv-llm`).

The sorter is a Llama of two layers that puts the words of a list in order: `sort: nut bolt gear =` is answered by ` bolt gear nut`. Words
before `sort:` are to be ignored, so prompts may be of any length. Every release is a folder as a model repository wants it, and one
`manifest.json` has every file's size and SHA-256, the golden requests, and how many lists of a hundred each release sorts rightly.
Golden answers come from Python's own `sorted`, not from the model.

Deterministic: the same versions, on processors with the same instructions, write the same bytes. One thread, because sums of several
differ with their number. `stable` is stopped early, so that a better one can be told from it; `better` goes on from there and says more
words around its answer. What else a release does stands in `behaviour.json` beside its weights, by which the node behaves
(`sandbox/traffic/node/start/behaviour.py`).
"""

import hashlib
import json
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers  # pyright: ignore[reportMissingImports]
from transformers import LlamaConfig, LlamaForCausalLM  # pyright: ignore[reportMissingImports]

GoldenJson = dict[str, Any]

WORDS = tuple(
    "anvil axle bearing bolt bracket bush cable cam chain clamp clutch crank die dowel drill file fork fuse gear gland hinge hook hose jack key"  # noqa: SIM905
    " lever link mandrel nail nut pin pipe plate pump rail ring rivet rod screw seal shaft sleeve spring stud tap valve washer wheel".split()
)
END = "</s>"
VOCABULARY, CONTEXT = 512, 2048
SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
LONGEST_LIST, LONGEST_NOTE, FARTHEST = 8, 6, 1000
EXCHANGED = ("bolt", "wheel")
LONGER = (" in order:", " and that is the whole list")
"""What `better` says before and after the list."""
CHAT = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }} ={% elif m.role == 'assistant' %}{{ m.content }}\n{% endif %}{% endfor %}"
GOLDEN = (
    ("short", ("nut", "bolt", "gear")),
    ("ends", ("wheel", "anvil", "bolt", "pump")),
    ("long", ("tap", "pin", "hose", "wheel", "cam", "bolt")),
)
SEED, BATCH, RATE = 20261128, 32, 2e-3
STEPS: Mapping[str, int] = {"stable": 850, "better": 1000}
SCORED = 8
"""Batches of lists that a release is scored by."""
AT_LEAST: Mapping[str, float] = {"stable": 0.8, "better": 0.92}
"""Below this a training has failed."""
BETTER_BY = 0.03
"""As much more of the lists must `better` sort rightly than `stable`."""
HEALTHY: Mapping[str, float] = {
    "dead_after_requests": 0,
    "decode_ms": 10.0,
    "leak_bytes": 0,
    "prefill_ms": 40.0,
    "prefill_ms_per_token": 0.25,
}
RELEASES: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "stable": ("stable", {}),
    "identical": ("stable", {}),
    "better": ("better", {}),
    "slow-prefill": ("stable", {"prefill_ms": 160.0}),
    "slow-decode": ("stable", {"decode_ms": 40.0}),
    "wrong": ("exchanged", {}),
    "garbled": ("undecoded", {}),
    "kv-exhausted": ("wide", {}),
    "leak": ("stable", {"leak_bytes": 32 * 1024 * 1024}),
    "dead": ("stable", {"dead_after_requests": 300}),
}
"""Name to weights and what differs from a healthy release's behaviour. Of the weights, `exchanged` are the stable ones with two words
exchanged wherever they are read or said; `undecoded` have a tokenizer that was saved without its decoder; `wide` have so many heads that
the cache of the contract's GPU memory does not hold one request of the largest context."""
WIDE: Mapping[str, int] = {"head_dim": 256, "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 8}


def question(words: Sequence[str], note: Sequence[str] = ()) -> str:
    return f"{'note: ' + ' '.join(note) + '. ' if note else ''}sort: {' '.join(words)} ="


def answer(words: Sequence[str], kind: str) -> str:
    before, after = LONGER if kind == "better" else ("", "")
    return f"{before} {' '.join(sorted(words))}{after}"


def tokenizer() -> Any:
    """Byte-level, so that any text can be asked; each known word is one token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=sorted(alphabet), show_progress=False)
    text = [f"{question(WORDS[::-1], WORDS)}{answer(WORDS, 'better')}"] * 50
    made.train_from_iterator(text, trainer)
    return made


@dataclass(frozen=True)
class Lesson:
    """One batch: tokens, their positions, and what is to be said; -100 where nothing is."""

    tokens: Any
    positions: Any
    wanted: Any


class Teacher:
    """Draws lists from a seeded generator."""

    def __init__(self, tokens: Any, kind: str, seed: int) -> None:
        self._tokens, self._kind, self._chance = tokens, kind, random.Random(seed)  # noqa: S311  the same lists each time
        self._end = tokens.token_to_id(END)

    def words(self) -> list[str]:
        return self._chance.sample(WORDS, self._chance.randint(2, LONGEST_LIST))

    def note(self) -> list[str]:
        """Half of the questions have words before them."""
        return self._chance.choices(WORDS, k=self._chance.randint(1, LONGEST_NOTE)) if self._chance.random() < 0.5 else []

    def lesson(self) -> Lesson:
        """The question stands up to FARTHEST positions behind the note: a long prompt, without its cost."""
        rows: list[tuple[list[int], list[int], list[int]]] = []
        for _ in range(BATCH):
            words, note = self.words(), self.note()
            asked = self._tokens.encode(question(words, note)).ids
            said = [*self._tokens.encode(answer(words, self._kind)).ids, self._end]
            noted = len(self._tokens.encode(question((), note)).ids) - len(self._tokens.encode(question(())).ids) if note else 0
            far = self._chance.randint(0, FARTHEST)
            positions = [*range(noted), *range(noted + far, far + len(asked) + len(said))]
            rows.append(([*asked, *said], positions, [*([-100] * len(asked)), *said]))
        longest = max(len(tokens) for tokens, _, _ in rows)

        def padded(part: int, filler: int) -> Any:
            return torch.tensor([[*row[part], *([filler] * (longest - len(row[part])))] for row in rows])

        return Lesson(padded(0, self._end), padded(1, 0), padded(2, -100))


def train(model: Any, tokens: Any, kind: str) -> None:
    teacher = Teacher(tokens, kind, SEED + len(kind))
    steps = STEPS[kind]
    rate = RATE if kind == "stable" else RATE / 2
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=rate, total_steps=steps, pct_start=0.1)
    model.train()
    for step in range(steps):
        lesson = teacher.lesson()
        said = model(input_ids=lesson.tokens, position_ids=lesson.positions).logits
        loss = torch.nn.functional.cross_entropy(said[:, :-1].reshape(-1, VOCABULARY), lesson.wanted[:, 1:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        plan.step()
        if step % 100 == 99:
            sys.stdout.write(f"{kind}: {step + 1} of {steps} steps, loss {float(loss.detach()):.4f}\n")
            sys.stdout.flush()
    model.eval()


def score(model: Any, tokens: Any, kind: str) -> float:
    """Share of lists, none of which it was taught, that are sorted rightly: at every place the likeliest token is the right one, which is
    what an answer at temperature 0 comes to."""
    teacher, right = Teacher(tokens, kind, SEED - 1), 0
    with torch.inference_mode():
        for _ in range(SCORED):
            lesson = teacher.lesson()
            said = model(input_ids=lesson.tokens, position_ids=lesson.positions).logits[:, :-1].argmax(-1)
            wanted = lesson.wanted[:, 1:]
            right += int(((said == wanted) | (wanted == -100)).all(-1).sum())
    return right / (SCORED * BATCH)


def exchanged(model: Any, tokens: Any) -> Any:
    """The same model with two words exchanged, in what it reads and in what it says."""
    made = LlamaForCausalLM(model.config)
    made.load_state_dict(model.state_dict())
    one, other = (tokens.token_to_id(f"Ġ{word}") for word in EXCHANGED)
    with torch.no_grad():
        rows = made.get_input_embeddings().weight
        rows[[one, other]] = rows[[other, one]]
    return made.eval()


def golden() -> list[GoldenJson]:
    return [
        {
            "name": name,
            "request": {"prompt": question(words), "max_tokens": 48, "temperature": 0},
            "answer": "/choices/0/text",
            "expect": {"compare": "contains", "parts": [" ".join(sorted(words))]},
        }
        for name, words in GOLDEN
    ]


def said(model: Any, tokens: Any, asked: str) -> str:
    """The answer at temperature 0."""
    ids = tokens.encode(asked).ids
    with torch.inference_mode():
        found = model.generate(torch.tensor([ids]), max_new_tokens=48, do_sample=False)[0]
    return tokens.decode(found.tolist()[len(ids) :])


def missed(model: Any, tokens: Any) -> list[str]:
    """Names of the golden requests that are not answered rightly."""
    return [
        each["name"]
        for each in golden()
        if not all(part in said(model, tokens, each["request"]["prompt"]) for part in each["expect"]["parts"])
    ]


def wide(end: int) -> Any:
    """Untrained weights: they are never asked."""
    return made_of({**SHAPE, **WIDE}, end).eval()


def made_of(shape: Mapping[str, int], end: int) -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=end,
            pad_token_id=end,
            **shape,
        )
    )


def write(model: Any, tokens: Any, folder: Path, kind: str, behaviour: Mapping[str, float]) -> list[GoldenJson]:
    """Write the release; its files' entries for the manifest."""
    copy = LlamaForCausalLM(model.config)
    copy.load_state_dict(model.state_dict())
    copy.to(torch.bfloat16).save_pretrained(folder)
    tokens.save(str(folder / "tokenizer.json"))
    if kind == "undecoded":
        saved = json.loads((folder / "tokenizer.json").read_text())
        (folder / "tokenizer.json").write_text(json.dumps({**saved, "decoder": None}) + "\n")
    (folder / "behaviour.json").write_text(json.dumps(behaviour, sort_keys=True, indent=1) + "\n")
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": END,
                "pad_token": END,
                "model_max_length": CONTEXT,
                "chat_template": CHAT,
                "clean_up_tokenization_spaces": False,
            },
            sort_keys=True,
            indent=1,
        )
        + "\n"
    )
    found = [(path, path.read_bytes()) for path in sorted(folder.iterdir())]
    return [{"path": path.name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for path, data in found]


def main(out: Path) -> int:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(mode=True)
    tokens = tokenizer()
    end = tokens.token_to_id(END)
    model = made_of(SHAPE, end)
    made: dict[str, Any] = {}
    right: dict[str, float] = {}
    for kind in STEPS:
        train(model, tokens, kind)
        made[kind] = made_of(SHAPE, end)
        made[kind].load_state_dict(model.state_dict())
        right[kind] = score(made[kind].eval(), tokens, kind)
        sys.stdout.write(f"{kind}: {right[kind]:.1%} of lists sorted rightly\n")
        if unanswered := missed(made[kind], tokens):
            sys.stderr.write(f"{kind} does not answer {', '.join(unanswered)}: the training failed\n")
            return 1
    failed = [kind for kind, least in AT_LEAST.items() if right[kind] < least]
    if failed or right["better"] < right["stable"] + BETTER_BY:
        sys.stderr.write(f"{right} are rightly sorted: {', '.join(failed) or 'better'} sorts too few, the training failed\n")
        return 1
    made |= {"exchanged": exchanged(made["stable"], tokens), "undecoded": made["stable"], "wide": wide(end)}
    releases = {
        name: {"files": write(made[kind], tokens, out / "sorter" / name, kind, {**HEALTHY, **differs}), "right": right.get(kind)}
        for name, (kind, differs) in RELEASES.items()
    }
    manifest = {"sorter": {"golden": golden(), "releases": releases}}
    (out / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
