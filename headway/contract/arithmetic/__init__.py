"""What a contract costs and whether it can work: memory, start-up, rollout room, quota, money. Pure; each result explains itself."""
