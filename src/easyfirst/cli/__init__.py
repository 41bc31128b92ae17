"""The command line: each command parses, builds, calls and prints, and nothing else."""
