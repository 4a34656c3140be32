"""AG News (Zhang et al., "Character-level convolutional networks for text classification", NeurIPS 2015).

127,600 news stories of four topics, each as a title and a description. Words are lower-case runs of letters and digits.
The vocabulary is made from the official training part: the 20,000 words that are most frequent there, of equally
frequent ones the first of the alphabet. Token 0 fills short texts up, token 1 is every other word, and the most
frequent word is token 2. A text has its first 64 words. Take it with `--model text`.

The sums are those that several projects report for these files; torchtext reads the same ones.
`pflbench data import ag_news FOLDER` takes train.csv and test.csv from a folder.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pflbench.data import downloads
from pflbench.data.arrays import Arrays
from pflbench.errors import UserError

TITLE = "AG News"
SAMPLES = 127_600
CLASSES = 4
IMPORT = "a folder of its files train.csv and test.csv"

URL = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/"
SHA256 = {
    "train.csv": "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e",
    "test.csv": "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699",
}
FOLDER = "ag_news"

TOPICS = ("World", "Sports", "Business", "Sci/Tech")
WORDS = 20_000  # of the vocabulary, next to the two tokens below
LENGTH = 64  # words of a text, at most
PADDING, UNKNOWN = 0, 1
WORD = re.compile(r"[a-z0-9]+")

Texts = list[tuple[int, list[str]]]
"""Label and words of every text."""


def read(root: Path, argument: str) -> Arrays:
    """x (127600, 64) int64: 120,000 training texts, then 7,600 test texts."""
    for name, sha256 in SHA256.items():
        downloads.there(root / FOLDER / name, sha256)
    return _arrays(root / FOLDER)


def download(root: Path) -> None:
    for name, sha256 in SHA256.items():
        downloads.fetch(URL + name, root / FOLDER / name, sha256)


def convert(files: Path) -> Arrays:
    """The same from a folder of the two files."""
    for name, sha256 in SHA256.items():
        downloads.verify(files / name, TITLE, sha256)
    return _arrays(files)


def _arrays(files: Path) -> Arrays:
    train, test = (_texts(files / name) for name in SHA256)
    tokens = vocabulary(words for _, words in train)
    both = [*train, *test]
    x = np.zeros((len(both), LENGTH), dtype=np.int64)
    for row, (_, words) in enumerate(both):
        found = [tokens.get(word, UNKNOWN) for word in words[:LENGTH]]
        x[row, : len(found)] = found
    y = np.array([label for label, _ in both], dtype=np.int64)
    return Arrays(x, y, class_names=TOPICS, vocabulary=len(tokens) + 2)


def vocabulary(texts: Iterable[list[str]]) -> dict[str, int]:
    """The token of every word that has one: 2 of the most frequent, 3 of the next, and so on."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(words)
    by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: token for token, word in enumerate(by_frequency[:WORDS], start=2)}


def _texts(path: Path) -> Texts:
    """The rows "topic","title","description" of a file; topics are 1..4."""
    try:
        content = path.read_text(encoding="utf-8")
        found: Texts = []
        for topic, *parts in csv.reader(io.StringIO(content, newline=""), strict=True):
            label = int(topic) - 1
            if len(parts) != 2 or label not in range(CLASSES):
                raise ValueError(f"row {len(found) + 1} is not a topic of 1..4, title, description")
            found.append((label, WORD.findall(" ".join(parts).replace("\\", " ").lower())))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} is not a file of AG News: {error}") from error
    return found
