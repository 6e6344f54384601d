"""The cost of reads: bars P1, P2, P3, P4, P6 and Q2, measured on the whole service.

Floors, which do the least that a Python service must do, and the service are processes, measured in
turns, so that what else the machine does falls on all of them alike.

The modules: `plan` (options, and what is measured where); `wording` and `person` (the data, from a
seed), `stage` (what runs, and fills the database); `caller` (requests, and the process that sends
them); `measure` (figures in turns, the start, what the walls cost), `recall` (bar Q2); `report`.
"""
