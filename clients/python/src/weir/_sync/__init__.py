# Written by generate.py: change that, or what it reads.

