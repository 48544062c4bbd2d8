"""What providers say about the quotas of their accounts: read, kept, judged."""
