"""The matter that a statement is about, and words for the end of something.

"We moved to Lisbon" and "lives in Porto" share no word and are about one matter, as are "retired"
and "works as a nurse". The lists are deliberately small and closed. They cover matters of which a
person has one and which change: home, work, partner, diet, school, name. An underscore joins the
words of a phrase.
"""

from __future__ import annotations

from collections.abc import Sequence

from hitherto_shared.vocabulary.opposites import index_of, mentions

_MATTERS = (
    (
        "live lives lived living reside resides resided residing based home house flat apartment "
        "move moves moved moving relocate relocates relocated relocating settled address sống "
        "chuyển chuyển_nhà cư_trú thường_trú nhà_ở vive vivo vivía mudé mudó mudado habite habité "
        "déménagé wohnt wohne umgezogen lebt lebe mora moro abita abito живёт живу переехал "
        "переехала أعيش يعيش أسكن يسكن انتقلت",
        "住 搬 引っ越 살고 살아 이사 อยู่ที่ ย้าย",
    ),
    (
        "work works worked working job jobs employed employer employee career occupation "
        "profession retire retires retired hired fired resigned position role self-employed "
        "freelance làm_việc nghề nghỉ_hưu nghỉ_việc thất_nghiệp công_ty trabajo trabaja trabajaba "
        "jubilado jubilada travaille travaillait retraite arbeitet arbeite rente lavora lavoro "
        "trabalha trabalho работает работаю уволился уволилась أعمل يعمل وظيفة",
        "工作 上班 退休 辞职 働 仕事 退職 일하 직장 퇴사 ทำงาน",
    ),
    (
        "vegetarian vegetarians vegan vegans pescatarian meat steak diet ăn_chay ăn_mặn "
        "thuần_chay thịt vegetariano vegetariana vegano végétarien végétarienne vegetarisch "
        "fleisch carne viande мясо نباتي",
        "素食 吃素 吃肉 ベジタリアン 채식 มังสวิรัติ",
    ),
    (
        "married marries marry wedding wed single engaged divorced widowed separated girlfriend "
        "boyfriend fiancé fiancée kết_hôn cưới ly_hôn ly_dị độc_thân chia_tay đính_hôn casado "
        "casada soltero soltera divorciado divorciada marié mariée divorcé divorcée verheiratet "
        "geschieden ledig женат замужем развёлся развелась متزوج متزوجة",
        "结婚 離婚 离婚 单身 独身 결혼 이혼 แต่งงาน",
    ),
    (
        "study studies studied studying student university college graduate graduates graduated "
        "sinh_viên đại_học tốt_nghiệp estudia estudiante étudie étudiant studiert student студент "
        "студентка учится",
        "大学 毕业 学生 卒業 대학 졸업 เรียน",
    ),
    (
        "name named called tên gọi nombre llama nom appelle heißt имя зовут اسمي",
        "名字 名前 이름 ชื่อ",
    ),
)
_INDEX = index_of([[words] for words, _ in _MATTERS])
_ENDING = frozenset(
    "stop stops stopped stopping quit quits left leave leaves sold sell ended finished done "
    "cancel cancelled canceled dropped gave giving given switched switch moved retired resigned "
    "lost lose broke broken changed change replaced replace returned anymore instead gone died "
    "passed wrong mistaken outdated former formerly previously ex "
    "bỏ nghỉ thôi hết ngừng dừng chuyển đổi bán mất hủy huỷ xong nhầm sai "
    "dejé dejado dejó vendí vendido cambié cambiado arrêté quitté vendu changé fini "
    "aufgehört verkauft gekündigt gewechselt verloren beendet smesso venduto parei vendi "
    "бросил бросила продал продала сменил сменила перестал перестала ушёл ушла больше "
    "توقفت تركت بعت غيرت".split()
)
_ENDING_SIGNS = (
    "不再 放弃 卖 换 辞 搬 停 戒 分手 やめ 辞め 売 引っ越 別れ 그만 팔았 바꿨 끊 เลิก ขาย ย้าย หยุด"
).split()


def matters(words: Sequence[str], signs: str) -> set[int]:
    """The matters that a text is about.

    Args:
        words: Its words, casefolded.
        signs: Its characters of scripts without spaces.
    """
    stated = {
        number
        for number, (_, roots) in enumerate(_MATTERS)
        if signs and any(root in signs for root in roots.split())
    }
    return stated | mentions(words, _INDEX).keys()


def signals_an_end(words: Sequence[str], signs: str) -> bool:
    """Whether a text says that something stopped, or became something else."""
    return not _ENDING.isdisjoint(words) or any(root in signs for root in _ENDING_SIGNS if signs)
