#!/usr/bin/env python3
"""Ferry from Python, through its C interface and nothing but ctypes: makes a plan of a profile for a named GPU, prints what it
predicts, then runs a small session on the host device and prints its statistics.

The library is found by FERRY_LIBRARY (the path of libferry.so), else where the system looks for libraries.
"""

import argparse
import ctypes
import ctypes.util
import json
import os
import pathlib
import sys
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_size_t, c_uint32, c_uint64, c_void_p

EXAMPLES = pathlib.Path(__file__).resolve().parent


class Key(Structure):
    """ferry_key"""

    _fields_ = [("micro_batch", c_uint32), ("segment", c_uint32), ("name", c_char_p)]


class TierStats(Structure):
    """ferry_tier_stats"""

    _fields_ = [("limit_bytes", c_uint64), ("now_bytes", c_uint64), ("peak_bytes", c_uint64), ("average_bytes", c_double),
                ("fragmentation", c_double)]


class LinkStats(Structure):
    """ferry_link_stats"""

    _fields_ = [("transfers", c_uint64), ("abandoned", c_uint64), ("failed", c_uint64), ("chunks", c_uint64),
                ("bytes", c_uint64), ("busy_us", c_double), ("gbps", c_double)]


class Stats(Structure):
    """ferry_stats"""

    _fields_ = [("size", c_size_t), ("steps", c_uint64), ("saves", c_uint64), ("restores", c_uint64),
                ("recomputes", c_uint64), ("recompute_us", c_double), ("hidden_us", c_double), ("exposed_us", c_double),
                ("waited_for_bytes_us", c_double), ("run_ahead_us", c_double), ("plans", c_uint64),
                ("plan_changes", c_uint64), ("adopted_bytes", c_uint64), ("device", TierStats), ("pinned", TierStats),
                ("in_flight", TierStats), ("device_to_host", LinkStats), ("host_to_device", LinkStats)]


class PlanSummary(Structure):
    """ferry_plan_summary"""

    _fields_ = [("size", c_size_t), ("budget_bytes", c_uint64), ("items", c_uint64), ("kept_items", c_uint64),
                ("offloaded_items", c_uint64), ("recomputed_items", c_uint64), ("insured", c_int), ("step_us", c_double),
                ("unlimited_us", c_double), ("lower_bound_us", c_double), ("overhead", c_double), ("waiting_us", c_double),
                ("recompute_us", c_double), ("device_peak_bytes", c_uint64), ("host_peak_bytes", c_uint64),
                ("offloaded_bytes", c_uint64), ("fetched_bytes", c_uint64)]


WORK = ctypes.CFUNCTYPE(c_int, c_void_p)

# What is called here: name, arguments. Handles and streams are void*; all of these return a status.
FUNCTIONS = {
    "ferry_string_free": [c_void_p],
    "ferry_settings_from_env": [POINTER(c_void_p)],
    "ferry_settings_set": [c_void_p, c_char_p, c_char_p],
    "ferry_settings_destroy": [c_void_p],
    "ferry_device_create": [c_void_p, POINTER(c_void_p)],
    "ferry_device_destroy": [c_void_p],
    "ferry_stream_create": [c_void_p, c_char_p, POINTER(c_void_p)],
    "ferry_stream_launch": [c_void_p, c_char_p, WORK, c_void_p, c_void_p, c_size_t],
    "ferry_stream_synchronize": [c_void_p],
    "ferry_stream_destroy": [c_void_p],
    "ferry_session_create": [c_void_p, c_void_p, POINTER(c_void_p)],
    "ferry_session_destroy": [c_void_p],
    "ferry_session_begin_step": [c_void_p],
    "ferry_session_end_step": [c_void_p],
    "ferry_session_allocate": [c_void_p, c_size_t, c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_void_p)],
    "ferry_session_save": [c_void_p, POINTER(Key), c_void_p, c_void_p, c_void_p, POINTER(c_void_p)],
    "ferry_session_restore": [c_void_p, POINTER(Key), c_void_p, POINTER(c_void_p), POINTER(c_void_p)],
    "ferry_session_release": [c_void_p, POINTER(Key)],
    "ferry_lease_end": [c_void_p],
    "ferry_session_stats": [c_void_p, POINTER(Stats)],
    "ferry_session_stats_json": [c_void_p, POINTER(c_void_p)],
    "ferry_session_explain": [c_void_p, POINTER(c_void_p)],
    "ferry_plan_make": [c_char_p, c_char_p, c_char_p, c_void_p, POINTER(c_void_p)],
    "ferry_plan_summarize": [c_void_p, POINTER(PlanSummary)],
    "ferry_plan_destroy": [c_void_p],
    "ferry_hardware_names": [POINTER(c_void_p)],
}


class FerryError(Exception):
    """A call that failed, with its status' name and Ferry's own words."""


class Ferry:
    """The library. A call that fails raises FerryError."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.ferry_version.restype = c_char_p
        self.library.ferry_last_error.restype = c_char_p
        self.library.ferry_status_name.restype = c_char_p
        self.library.ferry_status_name.argtypes = [c_int]
        for name, arguments in FUNCTIONS.items():
            function = getattr(self.library, name)
            function.argtypes = arguments
            function.restype = c_int

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            words = self.library.ferry_last_error().decode()
            raise FerryError(f"{self.library.ferry_status_name(status).decode()}: {words}")

    def make(self, name, *arguments):
        """A call whose last argument is where a handle goes."""
        made = c_void_p()
        self.call(name, *arguments, byref(made))
        return made

    def text(self, name, *arguments):
        """A call whose last argument is where a string goes, which is the caller's to free."""
        given = self.make(name, *arguments)
        try:
            return ctypes.string_at(given).decode()
        finally:
            self.call("ferry_string_free", given)

    @property
    def version(self):
        return self.library.ferry_version().decode()


def find_library():
    given = os.environ.pop("FERRY_LIBRARY", None)  # no setting of Ferry's own, which would refuse to know it
    found = given or ctypes.util.find_library("ferry")
    if not found:
        sys.exit("libferry.so was not found; install Ferry, or set FERRY_LIBRARY to its path, for instance "
                 "FERRY_LIBRARY=build/release/lib/libferry.so")
    try:
        return Ferry(found)
    except OSError as problem:
        sys.exit(f"{found} cannot be loaded: {problem}; set FERRY_LIBRARY to the path of libferry.so")


def mib(count):
    return f"{count / 2**20:.1f} MiB"


def show_plan(ferry, profile, gpu, budget):
    plan = ferry.make("ferry_plan_make", profile.read_bytes(), gpu.encode(), budget.encode(), None)
    summary = PlanSummary(size=ctypes.sizeof(PlanSummary))
    ferry.call("ferry_plan_summarize", plan, byref(summary))
    ferry.call("ferry_plan_destroy", plan)
    print(f"{profile.name} on {gpu}, budget {mib(summary.budget_bytes)}")
    print(f"  items     {summary.items}: {summary.kept_items} kept, {summary.offloaded_items} ferried, "
          f"{summary.recomputed_items} recomputed")
    print(f"  step      {summary.step_us / 1000:.2f} ms, {summary.overhead * 100:.2f}% over unlimited memory; no schedule "
          f"takes less than {summary.lower_bound_us / 1000:.2f} ms")
    print(f"  device    peak {mib(summary.device_peak_bytes)}; host {mib(summary.host_peak_bytes)}")
    print(f"  link      {mib(summary.offloaded_bytes)} out, {mib(summary.fetched_bytes)} in")


class Filler:
    """Work for a stream: fills memory with a byte, or counts the bytes in it that are not that one."""

    def __init__(self, ferry, stream):
        self.ferry, self.stream = ferry, stream
        self.wrong = 0
        self.kept = []  # ctypes frees a function that nobody refers to, and the stream calls it later

    def launch(self, name, work):
        function = WORK(work)
        self.kept.append(function)
        self.ferry.call("ferry_stream_launch", self.stream, name, function, None, None, 0)

    def fill(self, address, size, value):
        def work(_):
            ctypes.memset(address, value, size)
            return 0

        self.launch(b"fill", work)

    def expect(self, address, size, value):
        def work(_):
            self.wrong += size - ctypes.string_at(address, size).count(value)
            return 0

        self.launch(b"expect", work)


def run_session(ferry, segments=8, size=1 << 20):
    """Eight activations of 1 MiB under a budget of three: they leave, and come back with every byte."""
    settings = ferry.make("ferry_settings_from_env")
    for variable, value in ((b"FERRY_DEVICE", b"host"), (b"FERRY_POLICY", b"offload"), (b"FERRY_BUDGET", b"3MiB"),
                            (b"FERRY_LINK_GBPS", b"2"), (b"FERRY_DEVICE_BYTES", b"16MiB"), (b"FERRY_PINNED_BYTES", b"32MiB")):
        ferry.call("ferry_settings_set", settings, variable, value)
    device = ferry.make("ferry_device_create", settings)
    stream = ferry.make("ferry_stream_create", device, b"compute")
    session = ferry.make("ferry_session_create", device, settings)
    ferry.call("ferry_settings_destroy", settings)
    work = Filler(ferry, stream)

    ferry.call("ferry_session_begin_step", session)
    for segment in range(segments):
        block, memory = c_void_p(), c_void_p()
        ferry.call("ferry_session_allocate", session, size, stream, b"h", byref(block), byref(memory))
        work.fill(memory.value, size, segment + 1)
        ferry.call("ferry_session_save", session, byref(Key(0, segment, b"h")), block, stream, None, None)
    for segment in reversed(range(segments)):
        key, lease, memory = Key(0, segment, b"h"), c_void_p(), c_void_p()
        ferry.call("ferry_session_restore", session, byref(key), stream, byref(lease), byref(memory))
        work.expect(memory.value, size, segment + 1)
        ferry.call("ferry_lease_end", lease)
        ferry.call("ferry_session_release", session, byref(key))
    ferry.call("ferry_stream_synchronize", stream)
    ferry.call("ferry_session_end_step", session)

    stats = Stats(size=ctypes.sizeof(Stats))
    ferry.call("ferry_session_stats", session, byref(stats))
    everything = json.loads(ferry.text("ferry_session_stats_json", session))
    why = {name: count for name, count in everything["reasons"].items() if count}
    print(f"a session on the host device: {stats.saves} items of {mib(size)} under a budget of {mib(stats.device.limit_bytes)}")
    print(f"  device    peak {mib(stats.device.peak_bytes)}; pinned peak {mib(stats.pinned.peak_bytes)}")
    print(f"  link      {mib(stats.device_to_host.bytes)} out, {mib(stats.host_to_device.bytes)} in")
    print(f"  waiting   {stats.exposed_us / 1000:.1f} ms exposed, {stats.hidden_us / 1000:.1f} ms hidden")
    print(f"  decisions {', '.join(f'{name} {count}' for name, count in why.items())}")
    for line in ferry.text("ferry_session_explain", session).splitlines():
        print(f"  {line}")
    ferry.call("ferry_session_destroy", session)
    ferry.call("ferry_stream_destroy", stream)
    ferry.call("ferry_device_destroy", device)
    return work.wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=pathlib.Path, default=EXAMPLES / "profiles" / "gpt_1.3b_rtx4090.json",
                        help="what a step looks like; `ferry train --profile FILE` writes one [%(default)s]")
    parser.add_argument("--gpu", default="rtx4090", help="its name, or the text of a description [%(default)s]")
    parser.add_argument("--budget", default="30%",
                        help="device bytes for activations (12GiB), or a share of what all items come to [%(default)s]")
    parser.add_argument("--gpus", action="store_true", help="list the GPUs that have a name, and end")
    options = parser.parse_args()

    ferry = find_library()
    try:
        if options.gpus:
            print(ferry.text("ferry_hardware_names"), end="")
            return 0
        print(f"Ferry {ferry.version}")
        show_plan(ferry, options.profile, options.gpu, options.budget)
        intact = run_session(ferry)
    except FerryError as problem:
        sys.exit(f"error: {problem}")
    except OSError as problem:
        sys.exit(f"error: {problem}")
    print("every byte came back" if intact else "WRONG: bytes differ")
    return 0 if intact else 1


if __name__ == "__main__":
    sys.exit(main())
