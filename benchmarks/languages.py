"""The third set of questions: the simulator's stories retold in three languages, and Python's language reference.

Owns the texts, which were written for this project, and how the reference becomes questions: the first sentence of a
paragraph asks for the rest of it. The reference is the one that `help()` prints, so it is on every machine.
"""

from __future__ import annotations

import re
from pydoc_data import topics

LEAST_ASKED, LEAST_WORDS = 5, 12
_SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z])")

TOLD: tuple[tuple[str, str], ...] = (
    ("Doppelte Abbuchung nach Zeitüberschreitung vermeiden",
     ("Läuft die Zahlungsanfrage in eine Zeitüberschreitung, schicken wir sie mit demselben Idempotenzschlüssel erneut."
      " Ohne ihn wurde die Karte eines Kunden zweimal belastet.")),
    ("Alte Zeilen im Hauptbuch behalten",
     ("Buchungszeilen werden nie gelöscht, sondern durch eine Gegenbuchung aufgehoben. Die Prüferin verlangt,"
      " dass jeder Kontostand von gestern nachgerechnet werden kann.")),
    ("Kransteuerung meldet die Position zu spät",
     ("Die Positionsmeldungen des Hafenkrans stauen sich im Nachrichtenpuffer. Wir verwerfen veraltete Meldungen am"
      " Eingang, statt sie der Reihe nach abzuarbeiten.")),
    ("Zolltarifnummern nachts aktualisieren",
     ("Die Tarifdatei des Zolls erscheint kurz nach Mitternacht. Der Einlesevorgang prüft die Prüfsumme und behält bei"
      " einem Fehler die Fassung vom Vortag.")),
    ("Fahrer ohne Netz brauchen Auftragsdaten",
     ("Die Fahrer-App speichert die Aufträge des Tages verschlüsselt auf dem Gerät. Quittungen werden gesammelt und"
      " übertragen, sobald wieder Empfang besteht.")),
    ("Webhook-Empfänger antwortet nicht",
     ("Nach zehn vergeblichen Zustellversuchen wird ein Empfänger stillgelegt und sein Betreiber benachrichtigt."
      " Die Wartezeit zwischen den Versuchen verdoppelt sich jedes Mal.")),
    ("タイムアウト後の二重課金を防ぐ",
     "決済要求が時間切れになった場合は、同じ冪等キーで再送する。キーがないと顧客のカードに二度請求してしまった。"),
    ("元帳の古い行を残す理由",
     "仕訳の行は削除せず、反対仕訳で取り消す。監査人は昨日の残高をいつでも再計算できることを求めている。"),
    ("クレーン位置の報告が遅れる",
     "岸壁クレーンの位置情報がキューに溜まる。古くなった報告は受信時に捨て、順番に処理しないことにした。"),
    ("関税番号の夜間更新",
     "税関の料率ファイルは深夜零時過ぎに公開される。読み込み時に検査和を確認し、失敗したら前日の版を使い続ける。"),
    ("圏外の運転手にも作業指示を見せる",
     "運転手アプリは当日の指示を端末に暗号化して保存する。受領印は溜めておき、電波が戻ったら送信する。"),
    ("通知先が応答しないとき",
     "配信が十回続けて失敗した通知先は停止し、管理者に知らせる。再試行の間隔は毎回二倍にする。"),
    ("避免超时后的重复扣款",
     "支付请求超时后，用同一个幂等键重新发送。没有这个键，客户的银行卡曾被扣款两次。"),
    ("为什么保留总账旧记录",
     "分录从不删除，只用相反的分录冲销。审计师要求随时可以重新计算昨天的余额。"),
    ("起重机位置上报延迟",
     "码头起重机的位置消息堆积在队列里。我们在入口处丢弃过期的消息，而不是逐条处理。"),
    ("夜间更新海关税则号",
     "海关的税率文件在午夜后发布。导入时核对校验和，出错就继续使用前一天的版本。"),
    ("司机离线时也要看到任务",
     "司机应用把当天的任务加密保存在设备上。签收单先存起来，恢复信号后再上传。"),
    ("回调地址没有响应",
     "连续十次投递失败的接收方会被停用，并通知其负责人。每次重试的等待时间加倍。"),
)  # fmt: skip
"""Pairs of a title and the text of its conversation."""

ASKED: tuple[tuple[str, int], ...] = (
    ("Karte zweimal belastet", 0), ("Idempotenzschlüssel Zahlung", 0), ("Kontostand nachrechnen Prüferin", 1),
    ("Gegenbuchung statt löschen", 1), ("Kran Position veraltet", 2), ("Puffer Nachrichten verwerfen", 2),
    ("Tarif Prüfsumme Vortag", 3), ("Quittungen ohne Empfang", 4), ("Fahrer offline verschlüsselt", 4),
    ("Zustellung fehlgeschlagen Wartezeit verdoppeln", 5), ("Empfanger stillgelegt", 5),
    ("冪等キー", 6), ("カード 二度請求", 6), ("監査人 残高", 7), ("なぜ仕訳を削除しないのか", 7),
    ("クレーンの位置情報", 8), ("税関ファイルの検査和", 9), ("電波がないときの受領印", 10), ("再試行の間隔", 11),
    ("通知先を停止", 11),
    ("幂等键", 12), ("重复扣款怎么办", 12), ("审计师 余额", 13), ("丢弃过期消息", 14), ("起重机为什么延迟", 14),
    ("税率文件校验和", 15), ("离线签收单上传", 16), ("重试等待时间", 17), ("停用接收方", 17),
)  # fmt: skip
"""Questions, and which conversation answers."""


def read_reference() -> list[tuple[str, str]]:
    """Return questions and answers from the language reference: the first sentence of a paragraph, and the rest."""
    found: dict[str, str] = {}
    for text in topics.topics.values():
        for paragraph in text.split("\n\n"):
            first, *rest = _SENTENCE.split(" ".join(paragraph.split()), maxsplit=1)
            if rest and len(rest[0].split()) >= LEAST_WORDS and len(first.split()) >= LEAST_ASKED:
                found.setdefault(first, rest[0])
    return list(found.items())
