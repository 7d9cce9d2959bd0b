"""The bytes that belong to each step: written from the trainer's headers alone (data/sampler.h, data/generated.h,
data/text.h, data/text_source.h, core/random.h), without a line of its code."""

import functools
import json
import struct
import zlib

MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def derive(key, word):
    """A key from a key and a number or a name."""
    if isinstance(word, (str, bytes)):
        text, word = word.encode() if isinstance(word, str) else word, 0xCBF29CE484222325
        for byte in text:
            word = ((word ^ byte) * 0x100000001B3) & MASK
    return mix(key ^ mix(word & MASK))


def normal(key, counter):
    """Twelve uniform numbers of 32 bits, less their mean: exact in a double."""
    state = derive(key, counter)
    total = 0
    for i in range(6):
        bits = mix((state + i) & MASK)
        total += (bits >> 32) + (bits & 0xFFFFFFFF)
    return total * 2.0**-32 - 6.0


def permuted(index, count, key):
    """Where the permutation of [0, count) that `key` chooses sends `index`: six Feistel rounds, walked into the
    range."""
    bits = 1 if count < 2 else (count - 1).bit_length()
    half = (bits + 1) // 2
    mask = (1 << half) - 1
    rounds = [derive(key, i) for i in range(6)]
    while True:
        left, right = index >> half, index & mask
        for round_key in rounds:
            left, right = right, left ^ (mix(right ^ round_key) & mask)
        index = left << half | right
        if index < count:
            return index


def place(position, count, seed):
    """(epoch, sample) of the sample number `position` of a run."""
    epoch, index = divmod(position, count)
    return epoch, permuted(index, count, derive(derive(seed, "order"), epoch))


class Generated:
    """Models that generate their own data."""

    def __init__(self, backend, seed):
        self.real = "d" if backend == "ref" else "f"
        self.seed = seed
        self._made = {}

    def rows(self, positions):
        """The inputs for these samples: one list of rows of bytes for each input."""
        columns = None
        for position in positions:
            _, sample = place(position, self.count, self.seed)
            if sample not in self._made:
                self._made[sample] = self.make(sample)
            row = self._made[sample]
            columns = columns or [[] for _ in row]
            for column, data in zip(columns, row):
                column.append(data)
        return columns

    def packed(self, values):
        """Rounded to float32 also where the backend computes in double."""
        single = struct.pack(f"<{len(values)}f", *values)
        return single if self.real == "f" else struct.pack(f"<{len(values)}d",
                                                           *struct.unpack(f"<{len(values)}f", single))


class Line(Generated):
    count = 10000

    def make(self, sample):
        key = derive(derive(self.seed, "line"), sample)
        x = normal(key, 0)
        return [self.packed([x]), self.packed([3.0 * x + 0.1 * normal(key, 1)])]


class Blobs(Generated):
    count, features, classes = 20000, 32, 10

    def __init__(self, backend, seed):
        super().__init__(backend, seed)
        key = derive(seed, "centres")
        self.centres = [0.6 * normal(key, i) for i in range(self.classes * self.features)]

    def make(self, sample):
        key = derive(derive(self.seed, "blob"), sample)
        chosen = derive(key, "class") % self.classes
        first = chosen * self.features
        values = [self.centres[first + i] + normal(key, i) for i in range(self.features)]
        return [self.packed(values), struct.pack("<i", chosen)]


class Text:
    """Windows of characters, and the following characters as targets. Training reads the first nine tenths of each
    file."""

    def __init__(self, files, context, seed):
        self.context, self.seed = context, seed
        training, seen = bytearray(), set()
        for path in files:
            with open(path, "rb") as stream:
                data = stream.read()
            seen |= set(data)
            training += data[:len(data) - len(data) // 10]
        token = {byte: i for i, byte in enumerate(sorted(seen))}
        self.training = b"".join(struct.pack("<i", token[byte]) for byte in training)
        self.count = (len(training) - context) // context
        self._shift = {}

    def rows(self, positions):
        characters, targets = [], []
        for position in positions:
            epoch, sample = place(position, self.count, self.seed)
            if epoch not in self._shift:
                self._shift[epoch] = derive(derive(self.seed, "shift"), epoch) % self.context
            first = 4 * (self._shift[epoch] + sample * self.context)
            characters.append(self.training[first:first + 4 * self.context])
            targets.append(self.training[first + 4:first + 4 + 4 * self.context])
        return [characters, targets]


def source(process):
    """The samples of the run that a ledger's first line describes."""
    if process["model"] == "char-transformer":
        return Text(process["data"], process["context"], process["seed"])
    return {"mlp": Blobs, "linear-regression": Line}[process["model"]](process["backend"], process["seed"])


class Batches:
    """The CRC-32 of each micro-batch of each step, from the beginning of the run."""

    def __init__(self, process):
        self._source = source(process)
        self._batch, self._micro = process["batch_size"], process["micro_batch_size"]
        self._known = {}

    @property
    def per_step(self):
        return self._batch // self._micro

    def crc32(self, step, index):
        """Of micro-batch `index` of the step with number `step`, the first of which is 1; 8 hexadecimal digits."""
        if (step, index) not in self._known:
            first = (step - 1) * self._batch + index * self._micro
            value = 0
            for column in self._source.rows(range(first, first + self._micro)):
                value = zlib.crc32(b"".join(column), value)
            self._known[step, index] = f"{value:08x}"
        return self._known[step, index]


@functools.lru_cache(maxsize=8)
def _batches(description):
    return Batches(json.loads(description))


def batches(process):
    """The Batches of the run that a ledger's first line describes; equal runs are computed once."""
    keys = ("model", "data", "backend", "seed", "batch_size", "micro_batch_size", "context")
    return _batches(json.dumps({key: process[key] for key in keys}))
