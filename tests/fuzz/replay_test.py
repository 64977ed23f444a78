"""Runs the fuzz targets over the kept inputs and the seeds, and over some that
are made of them; tests/fuzz/run does it for long, by coverage.

    replay_test.py [RUNS [TARGET...]]     SHARDC_FUZZ names the program
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    runs = sys.argv[1] if len(sys.argv) > 1 else "200"  # of each target
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(HERE, "seeds.py"),
                        folder], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([os.environ["SHARDC_FUZZ"], folder, runs,
                               *sys.argv[2:]], stderr=subprocess.PIPE,
                              check=False)
        if done.returncode != 0:
            text = done.stderr.decode("utf-8", "replace")
            print("\n".join(text.splitlines()[-30:]))
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
