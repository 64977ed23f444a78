"""Lists the headers that are installed: every room's but the program's own."""

import os

HERE = os.path.dirname(os.path.abspath(__file__))

for room in sorted(os.listdir(HERE)):
    folder = os.path.join(HERE, room)
    if room == "cli" or not os.path.isdir(folder):
        continue
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h") and not name.endswith("-inl.h"):
            print(f"{room}/{name}")
