"""Oddities: the texts that break naive software, sprinkled rarely over ordinary ones.

Owns emoji, scripts other than Latin, very long lines, bodies of several kilobytes, carriage returns,
nested fences and raw HTML. Invariant: an oddity adds to a text or changes its line ends; it never
removes what the text says.
"""

from __future__ import annotations

from .dice import Dice

_RATE = 0.02
_STATES = ("GATE_IN", "LOADED", "DISCHARGED", "GATE_OUT", "CUSTOMS_HOLD", "RELEASED")
_GREETINGS = (
    "お客様からの連絡: 「至急ご確認ください。昨日から状況が変わっていません」",
    "Из обращения клиента: «пожалуйста, посмотрите как можно скорее»",
    "من رسالة العميل: «نرجو المراجعة في أقرب وقت»",
    '고객 문의 원문: "빠른 확인 부탁드립니다"',
    "Από το δελτίο: «παρακαλούμε ελέγξτε το άμεσα»",
    "ลูกค้าแจ้งว่าต้องการคำตอบภายในวันนี้",
)
_EMOJI = (
    "🚢📦",
    "🧑🏽‍💻 on it",
    "🇳🇱➡️🇸🇬",
    "⚠️⚠️ please read before deploying",
    "🎉",
    "1️⃣ 2️⃣ 3️⃣",
    "naïve café, cafe\u0301 🙃",
)
_MARKUP = (
    (
        "<details>\n<summary>Raw payload</summary>\n\n"
        '```json\n{"container": "HLXU4471120", "seals": ["", null]}\n```\n\n</details>'
    ),
    "````markdown\nA fence inside a fence:\n```sh\nhlctl replay --since 2h | sort -u\n```\n````",
    "```diff\n-    return retry(5)\n+    return retry(3, jitter=True)\n```",
    "<!-- template: remove this line --> &amp; <kbd>Ctrl</kbd>+<kbd>C</kbd> does not stop it",
    "$`t_{eta} = d / \\bar{v}`$ and a bare \\ backslash, a | pipe, a ~tilde~ and an * asterisk",
)


def disturb(dice: Dice, text: str) -> str:
    """Return the text, rarely with an oddity."""
    if not dice.chance(_RATE):
        return text
    kind = dice.between(0, 6)
    if kind == 0:
        return text.replace("\n", "\r\n") + "\r\n"
    if kind == 1:
        return f"{text}\n\n```\n{_log(dice, dice.between(60, 120))}\n```"
    if kind == 2:
        return f"{text}\n\n{_long_line(dice)}"
    if kind == 3:
        return f"{text}\n\n{dice.pick(_EMOJI)}"
    if kind == 4:
        return f"{text}\n\n{dice.pick(_MARKUP)}"
    if kind == 5:
        return f"{text}  \n\n\n \t\n"
    return f"> {dice.pick(_GREETINGS)}\n\n{text}"


def _container(dice: Dice) -> str:
    return f"HLXU{dice.between(1_000_000, 9_999_999)}"


def _log(dice: Dice, lines: int) -> str:
    """A log of several kilobytes."""
    minute = dice.between(0, 1300)
    return "\n".join(
        f"{stamp // 60:02d}:{stamp % 60:02d}:{dice.between(0, 59):02d} level=warn "
        f"container={_container(dice)} state={dice.pick(_STATES)} "
        f"attempt={dice.between(1, 9)} latency_ms={dice.between(4, 9000)}"
        for stamp in range(minute, minute + lines)
    )


def _long_line(dice: Dice) -> str:
    """A trace without a line break, as people paste it."""
    return "; ".join(f"{_container(dice)}={dice.pick(_STATES)}" for _ in range(dice.between(80, 160)))
