"""A differential fuzzer: whatever the policy calls read-only runs in bash and must change nothing.

``python -m tests.integration.permissions.fuzzing --seconds 600 --seed 7`` searches for longer
than the tests do.
"""
