"""The outer loops: by a schedule, by the calibrated pace, by a noise model, for counts."""
