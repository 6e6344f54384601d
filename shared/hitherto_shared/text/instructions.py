"""Recognises text that tries to instruct the assistant or imitates another role.

A match only lowers trust and sends a memory to review; the boundary is the origin bound on writing.
The patterns are therefore few and readable. Other people's text is suspect readily, a user's own
words only if they cannot be a wish about style. Latin script is matched without diacritics ("tu gio
ban phai" is "từ giờ bạn phải"), other scripts as written.
"""

from __future__ import annotations

import re

from hitherto_shared.text.normalise import INVISIBLE, SELECTORS, fold, normalized

_LONGEST = 16_384
"""Characters examined; a memory is far shorter."""

_UNSEEN = re.compile(rf"[{INVISIBLE}{SELECTORS}\u200c\u200d]")
_SPELLED_OUT = re.compile(r"(?<!\w)(?:[a-z][ .\-_*]){3,}[a-z](?!\w)")
_JOINERS = re.compile(r"(?<=\w)[_*~`\-]+(?=\w)")
_QUOTED = re.compile(
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|«[^»\n]{1,300}»|「[^」\n]{1,300}」|『[^』\n]{1,300}』|"
    r"`[^`\n]{1,300}`|(?<!\w)'[^'\n]{1,300}'(?!\w)"
)

# A clause begins at the start, after a stop, or after a word that introduces an order.
_START = r"(?:^|[\n.!?:;,\"'([{<>*#=|\-]\s*|\b(?:please|and|then|now|just|also|so|therefore)\s+)"
# Openings that patterns share, the longest first; the last one is that of any pattern.
_OPENINGS = (_START, r"(?:^|\n)\s*", r"\b", "")
_ASSISTANT = (
    r"(?:you|u|the assistant|this assistant|assistants?|the ai|ai|the model|the agent|the bot|"
    r"the chatbot|the system)"
)
_RULES_EN = (
    r"(?:instructions?|instructed|rules?|guidelines?|prompts?|directions?|directives?|"
    r"polic(?:y|ies)|"
    r"restrictions?|constraints?|safeguards?|safety (?:filters?|checks?)|training|programming|"
    r"system messages?)"
)

_POSES_ANYWHERE = (
    # Markers with which chat formats separate roles.
    r"<\|[^|<>\n]{1,40}\|>",
    r"\[/?inst\]",
    r"<</?sys>>",
    r"</?(?:system|developer|instructions?|prompt|memory|memories|context|data|assistant)"
    r"(?:\s[^<>\n]{0,80})?/?>",
    r"(?:^|\n)\s*#{1,6}\s*(?:system|developer|new|assistant)\s*(?:prompt|message|instructions?)\b",
    r"(?:^|\n)\s*\[\s*(?:system|developer)[^\]\n]{0,40}\]",
    r"\[end (?:of )?(?:about|system|memor|context|instructions?|prompt|data)[^\]\n]{0,40}\]",
    r"(?:^|\n)\s*-{2,}\s*(?:end|begin|start)\b[^\n]{0,30}\b(?:system|memor\w+|context|"
    r"instructions?|prompt|data)\b",
)
_OVERRIDES_LATIN = (
    # English
    rf"\b(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget(?:s|ting)?|overrid(?:e|es|ing)|"
    rf"bypass(?:es|ing)?|neglect|drop|discard|circumvent)\b(?:\s+\w+){{0,3}}?\s+(?:previous|prior|"
    rf"above|earlier|preceding|former|existing|original|initial|all|any|every|your|its|"
    rf"the assistant's|these|those|system|safety)\b(?:\s+\w+){{0,4}}?\s*\b{_RULES_EN}\b",
    rf"\b(?:ignore|disregard|forget|override)\s+{_RULES_EN}\s+(?:above|before|given|you)\b",
    r"\b(?:ignore|disregard|forget)\s+(?:everything|anything|all)\s+"
    r"(?:you (?:were|have been|ve been)|that you were)\s+(?:told|taught|instructed|given)\b",
    r"\b(?:reveal|print|output|repeat|show|leak|dump|expose|disclose)\b(?:\s+\w+){0,4}?\s+"
    r"(?:system|hidden|initial|secret)\s+(?:prompt|message|instructions?)\b",
    r"\byou are (?:now )?(?:dan|jailbroken|unrestricted|unfiltered|in (?:developer|god|admin|root|"
    r"debug|dan) mode)\b",
    r"\b(?:enable|enter|activate|switch (?:in)?to)\s+(?:developer|god|dan|jailbreak|admin|root|"
    r"unrestricted)\s+mode\b",
    r"\bnew (?:system )?(?:prompt|instructions?)\s*:",
    r"\bsystem (?:override|prompt override)\b",
    r"(?:^|\n)\s*(?:system|developer)(?: (?:message|prompt|note|notice))?\s*:\s*"
    r"(?:you\b|ignore|disregard|forget|override|always|never|from now|the assistant|new |do not|"
    r"don't|grant|approve|obey|act )",
    # Vietnamese
    r"\b(?:bo qua|phot lo|quen(?: het)?|lo di|vuot qua|huy bo|khong (?:can )?(?:tuan theo|"
    r"lam theo))\b(?:\s+\w+){0,3}?\s+(?:huong dan|chi dan|chi thi|menh lenh|lenh|quy tac|quy dinh|"
    r"noi quy|loi nhac)\b(?:\s+\w+){0,3}?\s*\b(?:truoc|tren|he thong|cu|ban dau|day|nay|cua ban|"
    r"duoc giao)\b",
    r"\b(?:bo qua|phot lo|quen(?: het)?)\s+(?:moi|tat ca|toan bo)(?:\s+\w+){0,2}?\s+(?:huong dan|"
    r"chi dan|chi thi|menh lenh|lenh|quy tac|quy dinh)\b",
    r"\b(?:tiet lo|in ra|hien thi|cho xem)\b(?:\s+\w+){0,3}?\s+(?:prompt|loi nhac|chi thi|"
    r"huong dan)\s+(?:cua )?he thong\b",
    # Spanish and Portuguese
    r"\b(?:ignor(?:a|e|ar|es|en)|olvid(?:a|e|ar|es)|desatiende|omite|descarta|esquec\w+|"
    r"desconsider\w+|desobedece)\b(?:\s+\w+){0,3}?\s+(?:instruccion(?:es)?|instruc(?:ao|oes)|"
    r"reglas?|regras?|indicaciones|ordenes|ordens|directrices|diretrizes|normas|prompt)\b"
    r"(?:\s+\w+){0,2}?\s*\b(?:anterior(?:es)?|previ[ao]s|de arriba|acima|del sistema|do sistema|"
    r"iniciales|iniciais|dadas|originales)\b",
    r"\b(?:ignora|olvida|ignore)\s+(?:todas?|todo)\s+(?:las |as |tus |suas )?(?:instrucciones|"
    r"instrucoes|reglas|regras|ordenes)\b",
    # French, German, Italian
    r"\b(?:ignor(?:e|ez|er)|oubli(?:e|ez|er))\b(?:\s+\w+){0,3}?\s+(?:instructions|consignes|regles|"
    r"directives)\b(?:\s+\w+){0,2}?\s*\b(?:precedentes|anterieures|ci-dessus|ci dessus|du systeme|"
    r"initiales)\b",
    r"\b(?:ignorier(?:e|en|t)|vergiss|vergessen|missachte)\b(?:\s+\w+){0,3}?\s+(?:vorherigen|"
    r"bisherigen|obigen|fruheren|vorigen)\s+(?:anweisungen|regeln|befehle|vorgaben|"
    r"instruktionen)\b",
    r"\b(?:ignora|dimentica)\b(?:\s+\w+){0,3}?\s+(?:istruzioni|regole)\b(?:\s+\w+){0,2}?\s*\b"
    r"(?:precedenti|di sistema)\b",
)
_OVERRIDES_OTHER = (
    # Chinese, simplified and traditional
    r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不要理會|绕过|繞過|覆盖|覆蓋)[^。！？\n]{0,12}"
    r"(?:之前|以上|先前|前面|上述|上面|此前|所有|全部|系统|系統|一切)[^。！？\n]{0,8}"
    r"(?:指令|指示|命令|规则|規則|提示词?|提示詞|设定|設定|限制)",
    r"(?:泄露|洩露|显示|顯示|输出|輸出|告诉我|告訴我)[^。！？\n]{0,8}(?:系统|系統)(?:提示|指令)",
    # Japanese
    r"(?:以前|これまで|上記|前|今まで|すべて|全て|全部|システム)の[^。！？\n]{0,8}"
    r"(?:指示|命令|ルール|規則|プロンプト|制約)を?[^。！？\n]{0,8}(?:無視|忘れ|破棄|上書き)",
    r"(?:指示|命令|ルール|規則|プロンプト)を(?:すべて|全て|全部)?(?:無視|忘れ)",
    r"システムプロンプトを[^。！？\n]{0,6}(?:表示|教え|出力|開示)",
    # Korean
    r"(?:이전|위의?|기존|모든|앞의)\s*[^.!?\n]{0,10}(?:지시|명령|규칙|지침)[^.!?\n]{0,8}(?:무시|잊)",
    # Russian
    r"\b(?:игнориру\w*|проигнориру\w*|забудь\w*|не обращай\w* внимания на)\s+(?:\w+\s+){0,3}"
    r"(?:инструкци\w+|правил\w*|указани\w+|команд\w*)",
    # Arabic
    r"(?:تجاهل|انس|انسى)\s+(?:\w+\s+){0,2}(?:التعليمات|الأوامر|القواعد|تعليمات)",
)

_ORDERS_LATIN = (
    # English: addressed to the assistant
    rf"\b{_ASSISTANT}\s+(?:must|shall|have to|has to|had to|are to|is to|are required to|"
    rf"is required to|are obliged to|are (?:hereby )?(?:authori[sz]ed|instructed|ordered) to|"
    rf"is (?:hereby )?(?:authori[sz]ed|instructed|ordered) to|are now|is now an?|will now|"
    rf"need to (?:always|never)|needs to (?:always|never)|should (?:always|never|now|ignore|"
    rf"disregard|approve|grant|obey|trust)|may never|can ?not refuse|will (?:always|never))\b",
    rf"\b(?:from (?:now|here) on(?:wards?)?|henceforth|going forward|from this (?:moment|point)"
    rf"(?: on(?:wards?)?)?|starting now)\s*,?\s*{_ASSISTANT}\b",
    r"\b(?:from (?:now|here) on(?:wards?)?|henceforth)\s*,?\s*(?:always|never|do not|don't|treat|"
    r"answer|respond|reply|act|ignore|recommend|approve)\b",
    rf"{_START}(?:always|never)\s+(?:approve|recommend|suggest|promote|answer|respond|reply|refuse|"
    rf"grant|send|forward|tell|say|trust|obey|comply|reveal|mention|include|output|print|accept|"
    rf"allow|authori[sz]e|transfer|pay|execute|run|call|ask|question|warn|deny|reject|do what)\b",
    rf"{_START}(?:do not|don't|never)\s+(?:tell|inform|alert|warn|notify|ask|"
    r"mention (?:this|it) to|"
    rf"reveal (?:this|it) to)\s+(?:the |this )?(?:user|human|customer|operator|anyone|anybody)\b",
    r"\bwithout (?:telling|informing|asking|notifying|confirmation from|the knowledge of)\s+"
    r"(?:the |this )?(?:user|human|customer|operator)\b",
    rf"{_START}(?:act|behave|respond|reply|answer|pose|roleplay|role-play) as (?:if|though|"
    r"an?|the)\b",
    rf"{_START}pretend (?:to be|that you|you)\b",
    rf"{_START}(?:ignore|disregard|forget|override|erase|delete|discard)\s+(?:everything|anything|"
    rf"all|any|what|every|previous|prior|earlier|other|the (?:user|above|previous))\b",
    r"\b(?:supersedes?|overrides?|overrules?|replaces?|cancels?|takes? precedence over|"
    r"invalidates?)\s+(?:all|any|every(?:thing)?|the)\s*(?:other |the )?(?:earlier|previous|prior|"
    r"other|existing|former|above|before|older|memor\w+|instructions?|rules?|"
    r"facts?)?\b(?:\s+\w+){0,2}?\s*\b(?:earlier|previous|prior|before|memor\w+|instructions?|"
    r"rules?|facts?|statements?|ones?|polic\w+|preferences?)\b",
    rf"{_START}(?:treat|consider|regard) (?:the |this |every |any |all )?(?:users?|requests?|"
    rf"callers?|messages?) (?:\w+ ){{0,3}}as (?:an? |the )?(?:\w+ )?(?:admin\w*|root|owner|"
    rf"operator|trusted|verified|approved|authori[sz]ed|superuser)\b",
    rf"{_START}(?:grant|give|allow) (?:the |this |every |any |all )?(?:users?|callers?|him|her|"
    rf"them|me) (?:\w+ ){{0,3}}?(?:access|rights?|permissions?|privileges?|discounts?|refunds?)\b",
    rf"{_START}(?:approve|authori[sz]e|accept|grant) (?:all|any|every)\b",
    r"\b(?:remember|note|store|save|memori[sz]e) (?:that |to )?(?:you (?:must|should|are|will|"
    r"always|never)|always|never)\b",
    r"\b(?:in|for|on|with) (?:all|every|any) (?:future|subsequent|later) (?:conversations?|"
    r"repl(?:y|ies)|responses?|answers?|sessions?|messages?|requests?)\s*,?\s*(?:you\b|always\b|"
    r"never\b|recommend|include|mention|answer|respond|reply|say|approve|add|append|send)",
    r"(?:^|\n)\s*(?:system|developer|assistant|ai|tool|human|admin(?:istrator)?|operator)"
    r"(?: (?:message|prompt|note|notice|instructions?))?\s*:",
    r"(?:^|\n)\s*(?:important|attention|urgent|notice)?\s*(?:instructions?|note|message|memo|"
    r"notice) (?:to|for) (?:the |any |all )?(?:ai|assistants?|model|agent|llm|chatbot|bot)s?\b",
    r"</?(?:user|human|tool|function\w*|message|im_\w+)(?:\s[^<>\n]{0,80})?/?>",
    r"!\[[^\]\n]{0,200}\]\(\s*<?(?:https?:|//|data:)",
    # Vietnamese
    r"\b(?:tu (?:bay )?gio|ke tu (?:bay gio|gio|nay|day)|tu nay|bat dau tu bay gio)"
    r"(?: (?:tro di|ve sau))?\s*,?\s*(?:ban|tro ly|may|ai|bot|he thong|hay|luon|khong duoc|phai)\b",
    r"\b(?:ban|tro ly|tro ly ao|chatbot|bot)\s+(?:phai|bat buoc|buoc phai|can phai|khong duoc|"
    r"khong duoc phep|luon phai|hay luon|nhat dinh phai|bay gio la|tu gio la)\b",
    rf"{_START}(?:hay|phai|nho)\s+(?:luon(?: luon)?|dong y|phe duyet|chap thuan|gia vo|dong vai|"
    rf"bo qua|coi)\b",
    rf"{_START}(?:luon(?: luon)?)\s+(?:phe duyet|chap thuan|dong y|gioi thieu|de xuat|tra loi|"
    rf"khuyen|chap nhan)\b",
    r"\b(?:dung|khong duoc|khong) (?:noi|bao|tiet lo|cho) (?:voi |cho )?(?:nguoi dung|khach hang)"
    r"(?: biet)?\b",
    # Spanish and Portuguese
    r"\b(?:a partir de (?:ahora|agora|este momento)|de ahora en adelante|desde ahora|de agora em "
    r"diante)\s*,?\s*(?:tu |usted |voce |el asistente |o assistente )?(?:eres|debes|debe|deberas|"
    r"tienes que|tiene que|vas a|seras|es|deve|tem que|vai|responde|responda|siempre|"
    r"sempre|nunca)\b",
    r"\b(?:tu|usted|voce|el asistente|la asistente|o assistente|la ia|a ia)?\s*\b(?:debes|debe|"
    r"deberas|tienes que|tiene que|deve|tem que)\s+(?:siempre|nunca|sempre|jamas|aprobar|aprovar|"
    r"obedecer|ignorar|recomendar|conceder)\b",
    r"\b(?:eres ahora|ahora eres|agora voce e|actua como|atue como|finge (?:ser|que))\b",
    rf"{_START}(?:siempre|nunca|sempre)\s+(?:aprueba|aprobar|recomienda|recomendar|responde|"
    rf"responder|aprove|recomende|responda|rechaces|digas|reveles|menciones|concede|acepta)\b",
    r"\bno (?:le )?(?:digas|informes|avises|cuentes)\s+(?:nada )?(?:al|a la|a el|a ningun) "
    r"(?:usuario|usuaria|cliente)\b",
    # French, German
    r"\b(?:desormais|a partir de maintenant|dorenavant)\s*,?\s*(?:tu|vous|l'assistant)\b",
    r"\b(?:tu dois|vous devez|l'assistant doit)\s+(?:toujours|jamais|approuver|ignorer|obeir|"
    r"recommander)\b",
    r"\b(?:ab (?:jetzt|sofort)|von (?:jetzt|nun) an)\s*,?\s*(?:musst|bist|wirst|sollst|du|"
    r"antworte)\b",
    r"\b(?:du musst|sie mussen|der assistent muss)\s+(?:immer|stets|niemals|nie)\b",
)
_ORDERS_OTHER = (
    # Chinese
    r"(?:从现在(?:起|开始)|從現在(?:起|開始)|从今以后|從今以後|今后|今後|以后|以後)[，,、]?\s*"
    r"(?:请|請)?(?:你|您|助手|助理|ai|模型|系统|系統)",
    r"(?:你|您|助手|助理|ai|模型)\s*(?:必须|必須|务必|務必|一定要|只能|应当始终|應當始終|不得|"
    r"不准|不允许|不允許|禁止|现在是|現在是|将扮演|將扮演)",
    r"(?:始终|始終|总是|總是|一律|永远|永遠)(?:要)?(?:批准|同意|推荐|推薦|回答|回复|回覆|服从|服從|"
    r"拒绝|拒絕|信任)",
    r"(?:不要|别|別|不得)(?:告诉|告訴|通知|提醒|让|讓)(?:用户|用戶|使用者|客户|客戶)",
    r"(?:假装|假裝|扮演)(?:你|您)?(?:是|成)?",
    r"(?:^|\n)\s*(?:系统|系統|助手|开发者|開發者|管理员|管理員)(?:消息|訊息|提示|指令)?\s*[:：]",
    # Japanese
    r"(?:今後|これから|今から|以後|この先)(?:は)?[、,]?\s*(?:あなた|君|お前|アシスタント|ai)(?:は|が)",
    r"(?:あなた|君|お前|アシスタント|ai)は[^。！？\n]{0,40}(?:なければなりません|なければならない|"
    r"しなさい|すること。?$|してはいけません|してはならない|必ず)",
    r"(?:必ず|常に|いつも|絶対に)[^。！？\n]{0,20}(?:承認|許可|推薦|おすすめ|勧め|回答|返答|従|拒否)"
    r"(?:し(?:なさい|ろ|てください|て下さい)|すること|せよ|って?ください|え|いなさい)",
    r"(?:ユーザー|利用者|顧客|お客様)に(?:は)?[^。！？\n]{0,10}(?:言わない|伝えない|知らせない|教えない|"
    r"話さない)",
    r"(?:のふりをし|になりきっ|として振る舞)",
    r"(?:^|\n)\s*(?:システム|アシスタント|開発者|管理者)(?:メッセージ|プロンプト)?\s*[:：]",
    # Korean
    r"(?:지금부터|앞으로|이제부터)[,]?\s*(?:당신은|너는|넌|어시스턴트는|ai는)",
    r"(?:당신은|너는|어시스턴트는)\s*(?:항상|반드시|절대)",
    # Russian
    r"(?:отныне|с этого момента|с этой минуты|впредь)\s*,?\s*(?:ты|вы|ассистент)",
    r"(?:ты|вы|ассистент)\s+(?:должен|должны|обязан|обязаны|должна)(?:\s+всегда|\s+никогда)?\b",
    r"(?:^|\n)\s*(?:система|ассистент|разработчик)\s*:",
    # Arabic
    r"(?:من الآن فصاعدا|من الآن)[ً،,]*\s*(?:أنت|يجب|عليك)",
    r"(?:يجب عليك|عليك أن)\s*(?:دائما|دائمًا|أبدا|ألا|أن)",
)


def _any(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """Expressions that together match what one of the patterns does, for the results of `_views`.

    There, no gap is longer than one character. Otherwise several gaps of a pattern could meet in a
    run of white space, and divide it in every possible way.

    Patterns with the same opening share it: where it does not match, none of them is tried. That
    makes a search in ordinary text three times as fast as one alternation of all patterns.
    """
    by_opening: dict[str, list[str]] = {}
    for pattern in patterns:
        opening = next(filter(pattern.startswith, _OPENINGS))
        by_opening.setdefault(opening, []).append(f"(?:{pattern.removeprefix(opening)})")
    return tuple(
        re.compile(f"{opening}(?:{'|'.join(rest)})".replace(r"\s*", r"\s?").replace(r"\s+", r"\s"))
        for opening, rest in by_opening.items()
    )


_LATIN_OVERRIDE = _any(_POSES_ANYWHERE + _OVERRIDES_LATIN)
_OTHER_OVERRIDE = _any(_OVERRIDES_OTHER)
_LATIN_ORDER = _any(_ORDERS_LATIN)
_OTHER = _OTHER_OVERRIDE + _any(_ORDERS_OTHER)


def _matches(expressions: tuple[re.Pattern[str], ...], text: str) -> bool:
    return any(expression.search(text) for expression in expressions)


def reads_as_instruction(text: str) -> bool:
    """Whether text tries to instruct the assistant, or imitates another role or a delimiter.

    For text of assistants, tools and documents, not of the user or an operator. Statements about
    the user ("prefers short answers", "must finish the report by Friday") do not match. A user's
    own wish ("from now on answer briefly") matches too; for the user's words use
    `overrides_instructions`. Only the first 16,384 characters count.
    """
    lines, folded = _views(text)
    return (
        _matches(_LATIN_OVERRIDE, folded)
        or _matches(_LATIN_ORDER, folded)
        # Folded, letters of other scripts are not ASCII, and each pattern of these has one.
        or (not folded.isascii() and _matches(_OTHER, lines))
    )


def overrides_instructions(text: str) -> bool:
    """Whether text asks to override the assistant's instructions, or breaks out of its frame.

    The narrow half of `reads_as_instruction`, for the user's own words: wishes about style and
    words in quotation marks pass.
    """
    lines, folded = _views(_QUOTED.sub(" ", text[:_LONGEST]))
    return _matches(_LATIN_OVERRIDE, folded) or (
        not folded.isascii() and _matches(_OTHER_OVERRIDE, lines)
    )


def _views(text: str) -> tuple[str, str]:
    """The text as written (one form, no case, nothing invisible), and without diacritics.

    In both, a run of white space is one space or, if it contains a line break, one line break.
    """
    plain = normalized("NFKC", text[:_LONGEST])[:_LONGEST]
    if not (plain.isascii() and plain.isprintable()):
        plain = _UNSEEN.sub("", plain).replace("’", "'").replace("‘", "'")
    lines = folded = _single_spaced(plain.casefold())
    if not lines.isascii():
        folded = "\n".join(map(fold, lines.split("\n")))
    folded = _SPELLED_OUT.sub(lambda found: re.sub(r"[^a-z]", "", found[0]), folded)
    return lines, _single_spaced(_JOINERS.sub(" ", folded))


def _single_spaced(text: str) -> str:
    return "\n".join(" ".join(words) for line in text.splitlines() if (words := line.split()))
