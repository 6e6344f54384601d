"""The words for times and numbers, each written once.

Code that reads a question, compares two statements or dates a statement takes them from here, and
decides itself when such a word is meant as one.
"""

from __future__ import annotations

MONTHS = (
    "january february march april may june july august september october november december"
).split()
MONTH_FORMS = {name: number for number, name in enumerate(MONTHS, 1)}
"""English names and their short forms, 1 to 12."""
MONTH_FORMS |= {name[:3]: number for name, number in MONTH_FORMS.items()} | {"sept": 9}
FOREIGN_MONTHS = {
    name: number
    for number, names in enumerate(
        "enero,janvier,januar,janeiro,gennaio,январь,января,январе "
        "febrero,février,februar,fevereiro,febbraio,февраль,февраля,феврале "
        "marzo,mars,märz,março,март,марта,марте abril,avril,aprile,апрель,апреля,апреле "
        "mayo,mai,maio,maggio,май,мая,мае junio,juin,juni,junho,giugno,июнь,июня,июне "
        "julio,juillet,juli,julho,luglio,июль,июля,июле agosto,août,август,августа,августе "
        "septiembre,septembre,setembro,settembre,сентябрь,сентября,сентябре "
        "octubre,octobre,oktober,outubro,ottobre,октябрь,октября,октябре "
        "noviembre,novembre,novembro,ноябрь,ноября,ноябре "
        "diciembre,décembre,dezember,dezembro,dicembre,декабрь,декабря,декабре".split(),
        1,
    )
    for name in names.split(",")
}

WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
WEEKDAY_FORMS = {name: number for number, name in enumerate(WEEKDAYS)}
"""English names and their short forms, 0 (Monday) to 6."""
WEEKDAY_FORMS |= {name[:3]: number for name, number in WEEKDAY_FORMS.items()}
WEEKDAY_FORMS |= {"tues": 1, "thur": 3, "thurs": 3}
FOREIGN_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        "lunes,lundi,montag,lunedì,понедельник martes,mardi,dienstag,martedì,вторник "
        "miércoles,mercredi,mittwoch,mercoledì,среда,среду "
        "jueves,jeudi,donnerstag,giovedì,четверг viernes,vendredi,freitag,venerdì,пятница,пятницу "
        "sábado,samedi,samstag,sabato,суббота,субботу "
        "domingo,dimanche,sonntag,domenica,воскресенье".split()
    )
    for name in names.split(",")
}
VIETNAMESE_WEEKDAYS = "thứ hai,thứ ba,thứ tư,thứ năm,thứ sáu,thứ bảy,chủ nhật".split(",")

NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
}
TO_TWELVE = [word for word, number in NUMBERS.items() if 1 <= number <= 12]
"""The numbers with which people count days, weeks and months."""
VIETNAMESE_NUMBERS = {
    word: number
    for number, word in enumerate("một hai ba bốn năm sáu bảy tám chín mười".split(), 1)
}

VIETNAMESE_UNITS = {
    **{"phút": "minute", "giờ": "hour", "tiếng": "hour", "ngày": "day", "hôm": "day"},
    **{"bữa": "day", "tuần": "week", "tháng": "month", "quý": "quarter", "năm": "year"},
    "cuối tuần": "weekend",
}

WHICH = {"last": -1, "past": -1, "previous": -1, "this": 0, "current": 0, "next": 1, "coming": 1}
"""The distance of a relative week, month and so on from the present one."""
VIETNAMESE_WHICH = {
    **{"trước": -1, "qua": -1, "rồi": -1, "vừa rồi": -1, "vừa qua": -1, "ngoái": -1},
    **{"này": 0, "nay": 0, "sau": 1, "tới": 1},
}

DAYS = {
    **{"day before yesterday": -2, "last night": -1, "yesterday": -1, "today": 0, "tonight": 0},
    **{f"this {part}": 0 for part in ("morning", "afternoon", "evening")},
    **{"day after tomorrow": 2, "tomorrow": 1},
}
"""Days named by their distance from today."""
VIETNAMESE_DAYS = {
    **{"hôm kia": -2, "ngày mai": 1, "ngày kia": 2, "ngày mốt": 2},
    **{f"{part} qua": -1 for part in ("hôm", "bữa", "sáng", "trưa", "chiều", "tối", "đêm")},
    **{f"{part} nay": 0 for part in ("hôm", "bữa", "sáng", "trưa", "chiều", "tối", "đêm")},
    **{f"{part} mai": 1 for part in ("sáng", "trưa", "chiều", "tối", "đêm")},
}
