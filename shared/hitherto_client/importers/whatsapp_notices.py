"""What WhatsApp itself writes in the place of a message, in the languages of its users."""

from __future__ import annotations

import re

from hitherto_client.importers.whatsapp_lines import LEFT_TO_RIGHT

# A name of an attached file with a remark in brackets, something in angle brackets, or what an
# older iPhone writes without its mark.
_ATTACHED = re.compile(r"<[^<>]{1,60}>|\S{1,120}\.\w{2,5} \([^()]{3,40}\)|.{1,80} omitted")
# `Vertrag.pdf • ‎3 Seiten ‎Dokument weggelassen`, as iPhones name a document: what they wrote
# themselves is marked.
_DOCUMENT = re.compile(
    rf".{{1,200}}\.\w{{1,8}}(?: • {LEFT_TO_RIGHT}[^{LEFT_TO_RIGHT}]{{1,40}})?"
    rf" {LEFT_TO_RIGHT}[^{LEFT_TO_RIGHT}]{{1,60}}"
)
_MARKED_END = re.compile(rf" ?{LEFT_TO_RIGHT}<[^<>]{{1,80}}>$")
_EDITED = re.compile(r" ?<([^<>]{1,80})>$")

_STOPS = ".。"
_EDITED_WORDS = frozenset(
    {
        "this message was edited",
        "diese nachricht wurde bearbeitet",
        "se editó este mensaje",
        "ce message a été modifié",
        "mensagem editada",
        "questo messaggio è stato modificato",
        "dit bericht is bewerkt",
        "pesan ini diedit",
        "tin nhắn này đã được chỉnh sửa",
        "bu mesaj düzenlendi",
        "данное сообщение изменено",
    }
)
_NO_WORDS = frozenset(
    {
        "null",
        # English
        "this message was deleted",
        "you deleted this message",
        "missed voice call",
        "missed video call",
        "waiting for this message. this may take a while",
        # German
        "diese nachricht wurde gelöscht",
        "du hast diese nachricht gelöscht",
        "verpasster sprachanruf",
        "verpasster videoanruf",
        "bild weggelassen",
        "video weggelassen",
        "audio weggelassen",
        "sticker weggelassen",
        "dokument weggelassen",
        # Spanish
        "se eliminó este mensaje",
        "este mensaje fue eliminado",
        "eliminaste este mensaje",
        "llamada perdida",
        "videollamada perdida",
        "imagen omitida",
        "video omitido",
        "audio omitido",
        "sticker omitido",
        "documento omitido",
        # French
        "ce message a été supprimé",
        "vous avez supprimé ce message",
        "appel vocal manqué",
        "appel vidéo manqué",
        "image absente",
        "vidéo absente",
        "audio omis",
        # Portuguese
        "mensagem apagada",
        "esta mensagem foi apagada",
        "você apagou esta mensagem",
        "imagem ocultada",
        "vídeo ocultado",
        "áudio ocultado",
        "figurinha omitida",
        # Italian
        "questo messaggio è stato eliminato",
        "hai eliminato questo messaggio",
        "immagine omessa",
        "video omesso",
        "audio omesso",
        # Dutch
        "dit bericht is verwijderd",
        "dit bericht werd verwijderd",
        "je hebt dit bericht verwijderd",
        "afbeelding weggelaten",
        # Indonesian
        "pesan ini dihapus",
        "anda menghapus pesan ini",
        # Vietnamese
        "tin nhắn này đã bị xóa",
        "tin nhắn này đã bị xoá",
        "bạn đã xóa tin nhắn này",
        "bạn đã xoá tin nhắn này",
        # Turkish
        "bu mesaj silindi",
        "bu mesajı sildiniz",
        # Russian
        "сообщение удалено",
        "данное сообщение удалено",
        "вы удалили данное сообщение",
        # Chinese, Japanese, Korean
        "此消息已删除",
        "你已删除此消息",
        "このメッセージは削除されました",
        "삭제된 메시지입니다",
    }
)


def words_of(said: str) -> str:
    """What a person wrote of a message; empty if the message only stands for something else.

    A caption under the name of an attached file is kept.
    """
    kept = [_MARKED_END.sub("", line) for line in said.split("\n")]
    kept = [line for line in kept if line and not line.startswith(LEFT_TO_RIGHT)]
    if kept and any(form.fullmatch(kept[0].strip()) for form in (_ATTACHED, _DOCUMENT)):
        del kept[0]
    text = "\n".join(kept).replace(LEFT_TO_RIGHT, "").replace("\u200f", "").strip()
    last = text[-90:]
    edited = _EDITED.search(last)
    if edited is not None and edited[1].casefold().rstrip(_STOPS) in _EDITED_WORDS:
        text = text[: len(text) - len(last) + edited.start()].strip()
    return "" if text.casefold().rstrip(_STOPS) in _NO_WORDS else text
