"""The cost of reads: bars P1, P2, P3, P4, P6 and Q2, measured on the whole service.

    python -m benchmarks.retrieval [--quick] [--full] [--json FILE]

One run starts everything fresh in a temporary folder: the embedded Postgres, filled with people
whose memories are as the service would have written them; an embeddings endpoint as a process that
answers in no time, or in 150 ms; the retrieval service as a process, with authentication by API
key; floors as processes, which do the least that a Python service must do; and a process that
calls them. Floors and service are measured in turns, in slices of a second, so that what else the
machine does falls on all of them alike.

The modules: `plan` (options, and what is measured where); `wording` and `person` (the data, from a
seed), `stage` (what runs, and fills the database); `caller` (requests, and the process that sends
them); `measure` (figures in turns, the start, what the walls cost), `recall` (bar Q2); `report`.
"""
