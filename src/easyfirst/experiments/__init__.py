"""The paper's evaluation: what is measured, by which methods, and what the paper printed.

An experiment is a definition (`base.Experiment`); `runner` measures, `tables` and `plots` draw
from the records that it leaves, and `report` writes the whole down.
"""
