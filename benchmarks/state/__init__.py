"""Measures what is believed: whether what is known follows what people say, in eight languages.

    python -m benchmarks.state

Forty people talk with an assistant over six to ten sessions (`people/`, written for this project
together with what must be known afterwards). The language model is played back from recorded
replies of a capable one (`replies/`, by version of the prompt) or, with OPENAI_BASE_URL or
OPENAI_API_KEY, a real one. Scored without a judge: whether right changes are applied, what is
current, ended, doubtful and forgotten, what the profile says, and how ten questions of each person
are answered.
`--record FOLDER` writes every prompt into a folder and waits there for the reply to it.
"""
