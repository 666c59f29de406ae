"""One request of the Open Inference Protocol over gRPC, on the standard library alone: what `probe.py` asks a server with that speaks no HTTP.

A request is the JSON of the protocol's HTTP form, with `model_name` in it; the answer comes back in the same form, whether the server fills
typed or raw contents. HTTP/2 without TLS, one connection and one call a question. Sources: RFC 9113, RFC 7541, grpc.io PROTOCOL-HTTP2,
kserve open-inference-protocol. The trap: a failed call answers 200 too; what became of it stands in the trailers.
"""

import socket
import struct
import time
import urllib.parse
from typing import Any

METHOD = "/inference.GRPCInferenceService/ModelInfer"
LARGEST_ANSWER = 256 * 1024 * 1024
LARGEST_JUDGED = 32 * 1024 * 1024
MOST_FIELDS = 1_000_000
"""Of one message: each takes fifty times its bytes in memory."""
LARGEST_HEADERS = 64 * 1024
BUSY_CODES = (4, 8, 14)
"""Deadline exceeded, resource exhausted, unavailable."""

Json = Any


class Failed(Exception):  # noqa: N818
    """The call did not succeed; `busy` where it may later."""

    def __init__(self, text: str, busy: bool = False) -> None:
        super().__init__(text)
        self.busy = busy


# Protocol buffers -----------------------------------------------------------------------------------------------------------------------

CONTENTS: "dict[str, tuple[int, str]]" = {
    "BOOL": (1, "varint"),
    "INT8": (2, "varint"),
    "INT16": (2, "varint"),
    "INT32": (2, "varint"),
    "INT64": (3, "varint"),
    "UINT8": (4, "varint"),
    "UINT16": (4, "varint"),
    "UINT32": (4, "varint"),
    "UINT64": (5, "varint"),
    "FP32": (6, "<f"),
    "FP64": (7, "<d"),
    "BYTES": (8, "bytes"),
}
"""Field of InferTensorContents and its encoding, by data type. The 16-bit floats have none: they exist as raw contents only."""
RAW: "dict[str, str]" = {
    "BOOL": "?",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def flat(data: Json) -> "list[Json]":
    """The elements of a nested list, in order."""
    return [element for part in data for element in flat(part)] if isinstance(data, list) else [data]


def contents(datatype: str, data: "list[Json]") -> bytes:
    if datatype not in CONTENTS:
        raise Failed(f"a golden request holds {datatype}, which no typed contents can carry")
    number, how = CONTENTS[datatype]
    if how == "bytes":
        return b"".join(field(number, str(element).encode()) for element in data)
    if how == "varint":
        return field(number, b"".join(varint(int(element)) for element in data))
    return field(number, b"".join(struct.pack(how, element) for element in data))


def encoded(request: Json) -> bytes:
    """A ModelInferRequest."""
    message = field(1, str(request["model_name"]).encode())
    if request.get("model_version"):
        message += field(2, str(request["model_version"]).encode())
    for tensor in request["inputs"]:
        shape = field(3, b"".join(varint(int(size)) for size in tensor["shape"]))
        inside = field(5, contents(tensor["datatype"], flat(tensor["data"])))
        message += field(5, field(1, tensor["name"].encode()) + field(2, tensor["datatype"].encode()) + shape + inside)
    for output in request.get("outputs", []):
        message += field(6, field(1, output["name"].encode()))
    return message


def read_varint(data: "bytes | bytearray", at: int) -> "tuple[int, int]":
    number = shift = 0
    while shift < 70:  # ten bytes hold the 64 bits of the longest; more would be built up digit by digit
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return number, at
    raise ValueError


def fields(data: "bytes | bytearray") -> "list[tuple[int, int, Json]]":
    """(number, wire type, value) of every field of a message."""
    found: list[tuple[int, int, Json]] = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            if at + size > len(data):
                raise IndexError
            value, at = data[at : at + size], at + size
        found.append((number, wire, value))
        if len(found) > MOST_FIELDS:
            raise ValueError
    return found


def integers(values: "list[tuple[int, Json]]", datatype: str) -> "list[Json]":
    """Varints, packed or one by one; negative ones are sent as 64 bits."""
    found: list[int] = []
    for wire, value in values:
        at = 0
        while wire == 2 and at < len(value):
            number, at = read_varint(value, at)
            found.append(number)
        if wire == 0:
            found.append(value)
    if datatype == "BOOL":
        return [bool(number) for number in found]
    return [number - (1 << 64) if datatype.startswith("INT") and number >> 63 else number for number in found]


def typed(data: bytes, datatype: str) -> "list[Json]":
    """The elements of an InferTensorContents."""
    number, how = CONTENTS[datatype]
    values = [(wire, value) for found, wire, value in fields(data) if found == number]
    if how == "bytes":
        return [value.decode(errors="replace") for _, value in values]
    if how == "varint":
        return integers(values, datatype)
    return [element for _, value in values for (element,) in struct.iter_unpack(how, value)]


def raw(data: bytes, datatype: str) -> "list[Json]":
    """The elements of raw contents: little-endian, texts with their length before them."""
    if datatype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]
    if datatype != "BYTES":
        return [element for (element,) in struct.iter_unpack("<" + RAW[datatype], data)]
    found: list[Json] = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size].decode(errors="replace"))
        at += 4 + size
    return found


def decoded(message: "bytes | bytearray") -> Json:
    """A ModelInferResponse in the protocol's HTTP form."""
    parts = fields(message)
    raws = [value for number, _, value in parts if number == 6]
    outputs: list[Json] = []
    for _, _, value in [part for part in parts if part[0] == 5]:
        inside = fields(value)
        datatype = next((data.decode() for number, _, data in inside if number == 2), "")
        filled = next((data for number, _, data in inside if number == 5), b"")
        outputs.append(
            {
                "name": next((data.decode() for number, _, data in inside if number == 1), ""),
                "datatype": datatype,
                "shape": integers([(wire, data) for number, wire, data in inside if number == 3], "INT64"),
                "data": raw(raws[len(outputs)], datatype) if len(outputs) < len(raws) else typed(filled, datatype),
            }
        )
    return {"model_name": next((value.decode() for number, _, value in parts if number == 1), ""), "outputs": outputs}


# Header compression ---------------------------------------------------------------------------------------------------------------------

CODE_LENGTHS: "list[int]" = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
]  # fmt: skip
"""Bits of the Huffman code of each ASCII character (RFC 7541, appendix B). The code is canonical: lengths and order give it."""


def huffman() -> "dict[tuple[int, int], str]":
    """(length, code) -> character, for the characters of up to 15 bits: all that gRPC's own headers and percent-encoded texts hold."""
    table: dict[tuple[int, int], str] = {}
    code = last = 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(CODE_LENGTHS) if length <= 15):
        code <<= length - last
        table[length, code] = chr(symbol)
        code, last = code + 1, length
    return table


HUFFMAN = huffman()


def unpacked(data: bytes) -> str:
    """Huffman-coded text; what a rarer character begins is replaced by a question mark."""
    text, code, length = "", 0, 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            if (length, code) in HUFFMAN:
                text += HUFFMAN[length, code]
                code = length = 0
            elif length > 15:
                return text + "?"
    return text


def number(block: bytes, at: int, bits: int) -> "tuple[int, int]":
    """An integer with a prefix of `bits`."""
    top = (1 << bits) - 1
    value, at = block[at] & top, at + 1
    if value < top:
        return value, at
    rest, at = read_varint(block, at)
    return value + rest, at


def text(block: bytes, at: int) -> "tuple[str, int]":
    packed = block[at] & 0x80
    size, at = number(block, at, 7)
    data = block[at : at + size]
    return unpacked(data) if packed else data.decode("latin-1"), at + size


STATUS: "dict[int, str]" = {8: "200", 9: "204", 10: "206", 11: "304", 12: "400", 13: "404", 14: "500"}


def headers(block: bytes) -> "dict[str, str]":
    """The headers of a block that tell what became of a call. The server was told to keep no table, so every other one stands alone."""
    found: dict[str, str] = {}
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = number(block, at, 7)
            if index in STATUS:
                found[":status"] = STATUS[index]
        elif first & 0xE0 == 0x20:
            _, at = number(block, at, 5)
        else:
            index, at = number(block, at, 6 if first & 0x40 else 4)
            name, at = (":status" if index in STATUS else "", at) if index else text(block, at)
            value, at = text(block, at)
            found[name] = value
    return found


# HTTP/2 ---------------------------------------------------------------------------------------------------------------------------------

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 0x20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
GREATEST = (1 << 31) - 1


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(index: int, name: str, value: str) -> bytes:
    """A header that no table keeps. Its texts are shorter than 127 characters, but for paths, which are not."""

    def plain(words: str) -> bytes:
        data = words.encode()
        return bytes([len(data)]) + data if len(data) < 127 else b"\x7f" + varint(len(data) - 127) + data

    return bytes([index]) + (b"" if index else plain(name)) + plain(value)


class Call:
    """One unary call on a connection of its own."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.socket = socket.create_connection((host, port), timeout=seconds)
        self.authority = f"{host}:{port}"
        self.seconds = seconds
        self.connection_window = self.stream_window = 65_535
        self.initial_window = 65_535
        self.largest_frame = 16_384
        self.block, self.answer = b"", bytearray()
        self.told: dict[str, str] = {}
        self.closing = self.ended = False

    def remaining(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def send(self, data: bytes) -> None:
        self.socket.settimeout(self.remaining())
        self.socket.sendall(data)

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self.socket.settimeout(self.remaining())
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server closed the connection")
            data += piece
        return data

    def ask(self, message: bytes) -> "bytes | bytearray":
        """The answer's message. Raises Failed when the call's own status says so."""
        # No header table, no pushes, windows as large as they may be: nothing then has to be kept account of on the way back.
        self.send(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HIHIHI", 1, 0, 2, 0, 4, GREATEST)))
        self.send(frame(WINDOW, 0, 0, struct.pack(">I", GREATEST - 65_535)))
        asked = b"\x83\x86" + literal(4, "", METHOD) + literal(1, "", self.authority) + literal(0, "content-type", "application/grpc")
        asked += literal(0, "te", "trailers") + literal(0, "grpc-timeout", f"{max(1, int(self.seconds * 1000))}m")
        self.send(frame(HEADERS, END_HEADERS, 1, asked))
        self.upload(b"\0" + struct.pack(">I", len(message)) + message)
        while not self.ended:
            self.step()
        return self.result()

    def upload(self, body: bytes) -> None:
        at = 0
        while at < len(body) and not self.ended:
            size = min(len(body) - at, self.largest_frame, self.connection_window, self.stream_window)
            if size <= 0:
                self.step()
                continue
            self.send(frame(DATA, END_STREAM if at + size == len(body) else 0, 1, body[at : at + size]))
            at, self.connection_window, self.stream_window = at + size, self.connection_window - size, self.stream_window - size

    def step(self) -> None:
        """One frame from the server."""
        head = self.receive(9)
        kind, flags, stream = head[3], head[4], struct.unpack(">I", head[5:])[0] & GREATEST
        size = int.from_bytes(head[:3], "big")
        if size > 16_384:
            raise Failed("what answers speaks no HTTP/2")
        payload = self.receive(size)
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == 4:
                    self.stream_window, self.initial_window = self.stream_window + value - self.initial_window, value
                elif name == 5:
                    self.largest_frame = value
            self.send(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW:
            more = struct.unpack(">I", payload)[0] & GREATEST
            if stream:
                self.stream_window += more
            else:
                self.connection_window += more
        elif kind == GOAWAY:
            if struct.unpack(">I", payload[:4])[0] & GREATEST < 1:
                raise Failed("the server is going away", busy=True)
        elif kind == RESET and stream == 1:
            # 0 after a whole answer: the server had no use for the rest of the question (RFC 9113, 8.1).
            if self.told.get("grpc-status") is None:
                raise Failed(f"the server broke the call off (HTTP/2 error {struct.unpack('>I', payload)[0]})", busy=payload[-1] == 7)
            self.ended = True
        elif stream == 1 and kind in (DATA, HEADERS, CONTINUATION):
            self.take(kind, flags, payload)

    def take(self, kind: int, flags: int, payload: bytes) -> None:
        if kind != CONTINUATION and flags & PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        if kind == DATA:
            self.answer += payload
            if len(self.answer) > LARGEST_ANSWER:
                raise Failed(f"the answer is larger than {LARGEST_ANSWER} bytes")
        else:
            self.block += payload[5:] if kind == HEADERS and flags & PRIORITY else payload
            if len(self.block) > LARGEST_HEADERS:
                raise Failed(f"the headers are larger than {LARGEST_HEADERS} bytes")
            if flags & END_HEADERS:
                self.told.update(headers(self.block))
                self.block = b""
        if kind != CONTINUATION and flags & END_STREAM:
            self.closing = True
        self.ended = self.closing and not self.block

    def result(self) -> "bytes | bytearray":
        status = self.told.get("grpc-status")
        if status != "0":
            why = urllib.parse.unquote(self.told.get("grpc-message", ""))
            if status is None:
                raise Failed(f"{METHOD} answered HTTP {self.told.get(':status', '?')} without a gRPC status")
            raise Failed(f"{METHOD} answered gRPC status {status}: {why[:300]}", busy=status in map(str, BUSY_CODES))
        if len(self.answer) < 5 or self.answer[0] or len(self.answer) != 5 + struct.unpack(">I", self.answer[1:5])[0]:
            raise Failed("the answer is no single uncompressed message")
        del self.answer[:5]
        return self.answer


def exchange(host: str, port: int, request: Json, seconds: float) -> Json:
    """The answer to `request`, both in the protocol's HTTP form. Raises Failed; TimeoutError; OSError when the server cannot be reached."""
    call = Call(host, port, seconds)
    try:
        message = call.ask(encoded(request))
        return decoded(message) if len(message) <= LARGEST_JUDGED else f"an answer of {len(message)} bytes, which nobody judges"
    except (AttributeError, IndexError, KeyError, ValueError, TypeError, struct.error) as oddity:
        raise Failed(f"question or answer is not of the protocol ({type(oddity).__name__})") from None
    finally:
        call.socket.close()
