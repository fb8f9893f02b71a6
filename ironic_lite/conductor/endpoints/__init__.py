"""What an API process may ask: each method locks, checks, moves, hands over, and has answered."""
