"""Splits a checkpoint as a script with the safetensors package does.

Usage: safetensors_worker.py CHECKPOINT FOLDER DIM DEVICES. Each device's file
gets its slice of every tensor. Prints the seconds that this took, imports not
counted.
"""

import os
import sys
import time

from safetensors import safe_open
from safetensors.numpy import save_file


def split(source, folder, dim, devices):
    with safe_open(source, "np") as checkpoint:
        names = list(checkpoint.keys())
        for device in range(devices):
            pieces = {}
            for name in names:
                tensor = checkpoint.get_slice(name)
                length = tensor.get_shape()[dim] // devices
                part = slice(device * length, (device + 1) * length)
                pieces[name] = tensor[part] if dim == 0 else tensor[:, part]
            save_file(pieces, os.path.join(folder, f"{device}.safetensors"))


def main():
    source, folder, dim, devices = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    before = time.perf_counter()
    split(source, folder, int(dim), int(devices))
    print(time.perf_counter() - before)


main()
