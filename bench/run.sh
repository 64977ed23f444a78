#!/bin/sh
# bench/run.sh --suite NAME|all [--rounds N] [--before BUILD] [-o FILE]
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
[ -x "$python" ] || python=python3
exec env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 \
  "$python" "$here/run.py" "$@"
