"""The decision stories of Harborline, one module for each component.

Owns their order, which is part of what a seed means.
"""

from __future__ import annotations

from ..model import Story
from .billing import BILLING
from .console import CONSOLE
from .customs import CUSTOMS
from .driver_app import DRIVER_APP
from .events import EVENTS
from .gateway import GATEWAY
from .history import HISTORY
from .infra import INFRA
from .ledger import LEDGER
from .portcalls import PORTCALLS
from .prices import PRICES
from .tariff import TARIFF
from .tracking import TRACKING
from .voyages import VOYAGES
from .webhooks import WEBHOOKS

STORIES: tuple[Story, ...] = (
    *BILLING,
    *CONSOLE,
    *CUSTOMS,
    *DRIVER_APP,
    *EVENTS,
    *GATEWAY,
    *HISTORY,
    *INFRA,
    *LEDGER,
    *PORTCALLS,
    *PRICES,
    *TARIFF,
    *TRACKING,
    *VOYAGES,
    *WEBHOOKS,
)
