"""pixels.py PICTURE.png COLOUR...: fails unless the picture has pixels of each colour and nearly none are black.

A colour is written as in the picture's source, "#4f7cac"; the first is that of the ground, at the corners. A few
pixels of each must be there, exactly: those inside shapes, not of their smoothed edges.
"""
import collections
import itertools
import struct
import sys
import zlib


def unfiltered(kind, line, above, size):
    """A row as PNG's filter `kind` has made it of the one above and of the pixel before, `size` bytes back."""
    if kind in (2, 4) and not any(line):
        return above
    if kind == 1:
        for c in range(size):
            line[c::size] = bytes(itertools.accumulate(line[c::size], lambda left, byte: left + byte & 255))
    elif kind == 2:
        line = bytearray(byte + up & 255 for byte, up in zip(line, above))
    elif kind == 3:
        for i, up in enumerate(above):
            line[i] = line[i] + ((line[i - size] if i >= size else 0) + up) // 2 & 255
    elif kind == 4:
        for i, up in enumerate(above):
            left, corner = (line[i - size], above[i - size]) if i >= size else (0, 0)
            far_left, far_up, far_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            near = left if far_left <= far_up and far_left <= far_corner else up if far_up <= far_corner else corner
            line[i] = line[i] + near & 255
    return line


def rows_of(path):
    """The rows of a picture with eight bits a channel, as tuples of red, green and blue."""
    data = open(path, "rb").read()
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, bits, colours = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += size + 12
    assert bits == 8 and colours in (2, 6), "expected colours of eight bits"
    channels = 3 if colours == 2 else 4
    plain = zlib.decompress(packed)
    stride = width * channels
    above = bytearray(stride)
    for y in range(height):
        begin = y * (stride + 1)
        above = unfiltered(plain[begin], bytearray(plain[begin + 1:begin + 1 + stride]), above, channels)
        yield list(zip(*(above[c::channels] for c in range(3))))


def main():
    wanted = [tuple(int(word[i:i + 2], 16) for i in (1, 3, 5)) for word in sys.argv[2:]]
    rows = list(rows_of(sys.argv[1]))
    corners = {rows[0][0], rows[0][-1], rows[-1][0], rows[-1][-1]}
    assert corners == {wanted[0]}, f"expected {sys.argv[2]} at the corners, not {corners}"
    count = collections.Counter(pixel for row in rows for pixel in row)
    for word, colour in zip(sys.argv[2:], wanted):
        assert count[colour] >= 4, f"expected {word}: {count[colour]} pixels have it"
    black = count[(0, 0, 0)] / sum(count.values())
    assert black < 0.01, f"{black:.0%} of the picture are black"


try:
    main()
except AssertionError as wrong:
    sys.exit(f"{sys.argv[1]}: {wrong}")
