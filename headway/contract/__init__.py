"""Tenant, model, pool: what a contract may say, what its parts must agree on, and how it is read.

- The schema is one module a concept: `units` and `part` (what values and parts are), `artifact`, `runtime`, `envelope`, `batching`,
  `optimisation`, `health`, `slo`, `scaling`, `placement`, `rollout`, `degradation`, `data`, `observability`, `evaluation`, `drift`, `batch`,
  which
  `model_parts` joins and `model` holds to the rules; `tenant`; `pool` of `pool_parts`; `accelerators`.
- `rules`: what the parts of one model contract must agree on.
- `arithmetic`: memory, start-up, cost, quota and room, as sums that explain themselves.
- `crosscheck`: what shows only when contracts are seen together, and what arithmetic says against one.
- `reading`: from files to contracts, or to every problem in them.
- `starter`, `difference`, `report`, `reference`: what is written for people and programs.

Nothing here imports Pulumi, and only `reading` touches the file system.
"""
