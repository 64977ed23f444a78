#!/bin/sh
# bench/run.sh --suite attn|audit|compile|lsp|match|split [--rounds N] [-o FILE]
here=$(cd "$(dirname "$0")" && pwd)
# Debian's packages (numpy, torch) belong to the system's Python.
python=/usr/bin/python3
[ -x "$python" ] || python=python3
exec env OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
  "$python" "$here/run.py" "$@"
