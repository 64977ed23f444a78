"""The Python that has the systems measured against.

`tests/bootstrap bench` makes its environment from
tests/runtimes/requirements-bench.txt. Without it, the Python that runs this
serves, and what it lacks is reported as absent.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MADE = os.environ.get("SHARDC_RUNTIMES") or os.path.join(
    HERE, "..", "build-runtimes")


def python():
    made = os.path.join(MADE, "bench", "bin", "python")
    return made if os.path.exists(made) else sys.executable
