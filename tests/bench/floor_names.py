"""What the floor calls its one key and its one model."""

KEY = "sk-floor"
MODEL = "floor-model"
