"""Settings of the whole suite."""

from hypothesis import settings

# Derandomized: a property fails for everybody or for nobody. No deadline: cores may be busy.
settings.register_profile("easyfirst", derandomize=True, deadline=None, max_examples=25)
settings.load_profile("easyfirst")
