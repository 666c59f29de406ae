"""Tenant, model, pool, envelope, SLO, rollout policy: the words that everything else uses."""
