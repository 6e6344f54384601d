"""Where a question names the user, and where the same word means something else."""

from __future__ import annotations

from hitherto_retrieval.search.own_name import about_the_user


def test_the_user_is_named() -> None:
    for name, question, about in [
        ("Maren", "Where does Maren live?", "Where does User live?"),
        ("Maren Olsen", "Where does Maren Olsen live?", "Where does User live?"),
        ("Maren Olsen", "Is Olsen's car red?", "Is User's car red?"),
        ("Nguyễn Thị Diễm", "Diễm sống ở đâu?", "User sống ở đâu?"),
        ("Søren Åberg-Lind", "Did Åberg-Lind call?", "Did User call?"),
        ("José", "Où habite Jose\u0301 maintenant ?", "Où habite User maintenant ?"),
        ("Αθηνά", "Πού μένει η Αθηνά;", "Πού μένει η User;"),
    ]:
        assert about_the_user(question, name) == about


def test_the_question_stays_as_it_is() -> None:
    for name, question in [
        ("", "Where does Maren live?"), ("Maren", "Where is the marena?"),
        ("Maren Olsen", "Where does Lucia Olsen live?"), ("Nguyễn Thị Diễm", "Where is Thị?"),
        ("Will", "Will she come?"), ("Hoa", "Tôi trồng hoa gì?"), ("Maren", "Who is Maren?"),
        ("相沢", "相沢さんはどこに住んでいますか？"), ("🦊", "Where does 🦊 live?"),
        ("A" * 101, f"Where does {'A' * 101} live?"),
    ]:  # fmt: skip
        assert about_the_user(question, name) == question
