"""Hitherto on one's own machine, from the installed package alone.

    hitherto up      both services with their database, and the console, in one terminal
    hitherto down    ends what `up` started
    hitherto demo    learns from sample conversations, and shows the result

`starting` says which processes there are, and starts and ends one, `up` keeps several together,
`state_file` tells another terminal what runs, `web` is the process that browsers reach.
"""
