"""Hitherto on one's own machine, from the installed package alone.

    hitherto up      both services with their database, and the console, in one terminal
    hitherto down    ends what `up` started
    hitherto demo    learns from sample conversations, and shows the result

`local_process` is one started process, `starting` and `supervision` keep several together,
`state_file` tells another terminal what runs, `web` is the process that browsers reach.
"""
