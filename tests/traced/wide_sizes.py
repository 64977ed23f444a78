"""The sizes of wide_models.py: those whose plans XLA compiles, or with
SHARDC_WIDE_MODELS=small those that a proof runs in a second."""

import os

SMALL = os.environ.get("SHARDC_WIDE_MODELS") == "small"
# The stream, KV heads and queries of each, a head, the inner width, words, experts.
W, KV, GROUP, D, F, V, E = (32, 4, 2, 4, 64, 96, 8) if SMALL else \
    (256, 4, 2, 32, 1024, 2048, 8)
# Sequences and their length.
B, T = (4, 16) if SMALL else (8, 64)
