"""Tenant, model, pool, envelope, SLO, rollout policy: the words that everything else uses.

Read in this order: `units` and `part` (what values and parts are); one module a concept (`artifact`, `runtime`, `envelope`, `batching`,
`optimisation`, `health`, `slo`, `scaling`, `placement`, `rollout`, `degradation`, `data`, `observability`, `batch`) that `model` joins and
`agreement` holds together; `tenant`, `pool`, `accelerators`; `arithmetic` (sums that explain themselves) and `crosscheck` (contracts seen
together); `document`, `reading`, `loader` (from files to contracts or findings); `starter`, `difference`, `report`, `reference`.
Nothing here imports Pulumi, and only `loader` and `environment` touch the file system.
"""
