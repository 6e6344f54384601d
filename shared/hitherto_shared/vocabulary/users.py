"""The words with which models refer to the user of a memory ("the user", "l'utilisateur")."""

from __future__ import annotations

USER_WORDS = frozenset(
    "user users user's users' usuario usuaria usuário usuária utilizador utilizadora utilisateur "
    "utilisatrice l'utilisateur l'utilisatrice benutzer benutzerin nutzer nutzerin utente l'utente "
    "gebruiker użytkownik użytkowniczka kullanıcı användaren brukeren пользователь користувач "
    "المستخدم مستخدم المستخدمة המשתמש המשתמשת उपयोगकर्ता".split()
)
"""Without those of several words ("người dùng") and of scripts without spaces."""
