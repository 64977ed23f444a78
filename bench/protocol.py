"""What every worker of bench/ does: a case's name in, its seconds out.

Seconds of processor time, the median of the calls that fit in 60 ms (at
least one): with one thread that is the time on an idle machine, and what
else runs on this one does not count.
"""

import sys
import time

# Decoding reads a cache once, as each layer of a model does: calls take turns
# over so many bytes of caches, which no processor's own cache holds.
TURN_BYTES = 256 << 20


def turns(count_bytes):
    """How many caches of so many bytes calls take turns over."""
    return max(1, TURN_BYTES // count_bytes)


def in_turn(calls):
    """One function that runs the next of the calls each time."""
    at = [0]

    def run():
        calls[at[0]]()
        at[0] = (at[0] + 1) % len(calls)

    return run


def serve(make):
    """make(words) gives a function to time, or a reason as a string."""
    cases = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in cases:
            try:
                cases[name] = make(name.split())
            except Exception as error:  # the driver reports it as absent
                cases[name] = "%s: %s" % (type(error).__name__, error)
        run = cases[name]
        if isinstance(run, str):
            print("absent", run.splitlines()[0], flush=True)
            continue
        run()  # the first call may compile, convert or fault pages in
        calls = []
        start = time.process_time()
        while not calls or time.process_time() - start < 0.06:
            before = time.process_time()
            run()
            calls.append(time.process_time() - before)
        calls.sort()
        print(calls[len(calls) // 2], 0, flush=True)
