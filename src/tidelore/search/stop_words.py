"""English words that stand in every text and tell nothing about one. Owns the list; data only."""

from __future__ import annotations

_WORDS = """
a about after again all also am an and any are aren as at be because been before being below between both but by
can could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have
haven having he her here hers him his how i if in into is isn it its itself just ll m me more most my no nor not
now o of off on once only or other our ours out over own re s same she should shouldn so some such t than that the
their theirs them then there these they this those through to too under until up us ve very was wasn we were weren
what when where which while who whom why will with won would wouldn y you your yours
"""
STOP_WORDS = frozenset(_WORDS.split())
