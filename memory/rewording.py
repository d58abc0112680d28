"""What says no, may, now or instead, written in one way, be it English, German or Chinese."""

import re
import unicodedata

from .terms import CJK

_NUMERALS = "零一二两三四五六七八九十百千万"
_DIGITS = {"零": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4} | {
    character: at for at, character in enumerate("五六七八九", 5)
}
_TENS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000}
_NUMERAL = re.compile(rf"[{_NUMERALS}]+(?=[号个次天周年月日小分秒倍名人元条台家种件张位层页块间])")
_MORE = "more|later|greater|larger|bigger|higher|older"
_LESS = "less|fewer|earlier|lower|smaller|shorter"

_ALIKE = tuple(
    (re.compile(pattern, re.IGNORECASE), written)
    for pattern, written in (
        (r"[’ʼ]", "'"),  # noqa: RUF001 (apostrophes as people write them)
        (r"\bwon't\b", "will not"),
        (r"\bcan(?:'t|not)\b", "can not"),
        (r"n't\b", " not"),
        (r"'(?:s|ll|re|ve|d|m)\b", ""),
        (r"\bnot only\b", "also"),
        (r"\b(?:ha(?:ve|s)|needs?) to\b", "must"),
        (rf"\bnot? (?:be )?(?:longer|{_MORE}) than\b|\bup to\b|≤|<=", " max "),
        (rf"\bnot? (?:be )?(?:{_LESS}) than\b|≥|>=", " min "),
        (r">", " over "),
        (r"<", " under "),
        (r"^\W*no\W*,", " now "),
        (
            r"\b(?:not|no) (?:\w+ )?any ?more\b|\bnicht (?:mehr|länger)\b|\bkeine?\w? \w+ mehr\b",
            "no longer",
        ),
        (r"\b(?:nicht|kein\w*|nie(?:mals)?)\b", "not"),
        (r"\bohne\b", "without"),
        (r"\b(?:jetzt|nun|ab sofort|künftig|from now on)\b", "now"),
        (r"\bstattdessen\b", "instead"),
        (r"\b(?:an)?statt\b", "instead of"),
        (r"\bsondern\b", "but"),
        (r"\b(?:muss|müssen)\b", "must"),
        (r"\b(?:soll|sollen|sollte)\b", "should"),
        (r"\b(?:darf|dürfen|kann|können)\b", "can"),
        (r"\b(?:wenn|falls)\b", "if"),
        (r"\b(?:nur|lediglich)\b", "only"),
        (r"\b(?:für)\b", "for"),
        (
            r"从([^，。；]{1,40}?)(?:改为|改成|改到|换成|换到|切换到|变为|升级到|迁移到|降到|提高到|增加到)",
            r" change from \1 to ",
        ),
        (r"(?:改为|改成|改用|换成|变为|调整为|现在|目前|如今|更新为)", " now "),
        (r"不再", " no longer "),
        (r"而是", " but "),
        (r"禁止|无需|不(?![同仅但断错])|[没未无勿]有?", " not "),
        (r"必须|务必", " must "),
        (r"应该|应当", " should "),
        (r"可以|允许", " can "),
        (r"如果|若是", " if "),
        (r"只有|只能|只|仅", " only "),
        (r"第(\d+)号?|(\d+)号", r" #\1\2 "),
        (r"(\d)\s*个?(秒|分钟|小时|天|周|月|年|元|块)", r"\1 \2 "),
        (r"[的了是为在与和我们将会由也都就被把]", " "),
        (r"。", ". "),
    )
)
_UNITS = {
    "秒": "seconds",
    "分钟": "minutes",
    "小时": "hours",
    "天": "days",
    "周": "weeks",
    "月": "months",
    "年": "years",
    "元": "yuan",
    "块": "yuan",
}
_COUNTED = re.compile(rf"(?<=\d )({'|'.join(_UNITS)})(?= )")


def reworded(text: str) -> str:
    """Return a text with its negations, modal verbs and cues of revision in plain English.

    >>> reworded("We can't use it any more."), reworded("超时时间不再是三十秒").split()
    ('We can not use it any more.', ['超时时间', 'no', 'longer', '30', 'seconds'])
    """
    text = re.sub(r"(?: ?\n)+ ?", "\n", re.sub(r"[^\S\n]+", " ", text))
    text = unicodedata.normalize("NFKC", text)
    text = _NUMERAL.sub(lambda found: _number(found[0]), text)
    for pattern, written in _ALIKE:
        text = pattern.sub(written, text)
    text = _COUNTED.sub(lambda found: _UNITS[found[1]], text)
    text = re.sub(rf"(?<=[{CJK}])(?=[^\W{CJK}])|(?<=[^\W{CJK}])(?=[{CJK}])", " ", text)
    return re.sub(r"[ \t]+", " ", text)


def _number(numeral: str) -> str:
    total, digit = 0, 0
    for character in numeral:
        if character in _TENS:
            total, digit = total + max(digit, 1) * _TENS[character], 0
        else:
            digit = digit * 10 + _DIGITS[character]
    return str(total + digit)
