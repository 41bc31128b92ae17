"""Rows that arrive batch by batch."""
