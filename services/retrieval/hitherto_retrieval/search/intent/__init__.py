"""Query analysis from the words alone: no database, no model, no clock.

`recency.py` knows whether the most recent items are wanted, `content_types.py` which kind of
content ("email"), `question.py` puts these beside the time, the names and the words of the
question, and `whole_words.py` finds words in texts of any script.
"""
