"""What every test shares.

Property tests try the same examples on every run, so that a red build is red for everyone. To look
for new ones: `make test ARGS="--hypothesis-profile=explore"`.
"""

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("repeatable")
