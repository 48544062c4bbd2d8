"""How passwords are hashed: Argon2id with the parameters of operations.md 10.3."""

from django.contrib.auth.hashers import Argon2PasswordHasher


class Argon2(Argon2PasswordHasher):
    """About 20 ms; ``memory_cost`` in KiB."""

    time_cost = 2
    memory_cost = 19_456
    parallelism = 1
