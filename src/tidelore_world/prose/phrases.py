"""Connective material: the sentences between the facts of a story.

Owns phrases that fit any topic. Slots in braces: the facts of the topic (see `topics`), and, drawn for
each text, `{user}`, `{other}`, `{change}`, `{issue}`, `{path}`, `{line}` and `{n}`.
"""

from __future__ import annotations

from types import MappingProxyType

DECISIONS: tuple[str, ...] = (
    "Decision: {decision}. Reason: {reason}.",
    "**Decision:** we {decision}, because {reason}.",
    "Decision: we will {decision}.\n\nThe reason, for whoever reads this in a year: {reason}.",
    "Talked this through with @{user} and @{other}. Decision: {decision}. In short: {reason}.",
    "Okay, we have enough to decide.\n\n> **Decision:** {decision}\n\nBecause {reason}.",
    "Agreed, so let us write it down. Decision: {decision}. It comes down to this: {reason}.",
    "Closing the loop. Decision: {decision}. I will add it to the decision log, see #{issue}.",
    "Decided: {decision}. Why: {reason}.",
    "We are going with {chosen}. Decision: {decision}.",
    "No objections left, so this is decided: {decision}. The argument that settled it: {reason}.",
    "### Decision\n\nWe {decision}.\n\n### Why\n\nBecause {reason}.",
    "Decision after the sync today: {decision}. @{user} takes the change, @{other} the runbook.",
    "Final call from my side. Decision: {decision}; {reason}.",
    "I think we all say the same thing now. Decision: {decision}.",
)
ACKNOWLEDGEMENTS: tuple[str, ...] = (
    "Thanks, resolved.",
    "Works for me. I will pick it up in {change}.",
    "Good. I have linked this thread from {change} so that nobody has to find it again.",
    "Agreed. Noted in the decision log, resolving.",
    "👍 resolving this one.",
    "Perfect, that was my last concern. Approving once the pipeline is green.",
    "Done in the last commit, thank you for pushing on this.",
    "Happy with that. @{user} please shout if the numbers look different in {region}.",
)
OPENERS: tuple[str, ...] = (
    "",
    "Hi all,\n\n",
    "Follow-up of {inc}.\n\n",
    "Reported by {customer} through support.\n\n",
    "Seen on {version} in {region}.\n\n",
    "Split out of #{issue}.\n\n",
    "cc @{user} @{other}\n\n",
    "From the weekly {component} review.\n\n",
    "We have talked about this more than once; here it is in writing.\n\n",
)
CLOSERS: tuple[str, ...] = (
    "",
    "\n\nI would like to settle this before {next} is cut.",
    "\n\nRelated: {change}, #{issue}.",
    "\n\n@{user} you know this part best, what do you think?",
    "\n\nOpen question: {question}",
    "\n\nNot urgent, but it gets more expensive with each week that we wait.",
    "\n\n/cc @{user} @{other}",
    "\n\nThe code is in `{path}`, around line {line}.",
    "\n\nFirst seen in {inc}; the timeline is in the incident document.",
    "\n\nI can take it if we agree on a direction by the end of the week.",
    "\n\nAcceptance: the numbers above on the staging copy of {region}, and a page in the runbook.",
)
IMPACTS: tuple[str, ...] = (
    "{customer} is affected most: {big} records since {version}.",
    "About {pct} % of the traffic in {region} goes through this path.",
    "Support has {small} open tickets on it, {customer} alone has three.",
    "It paged the on-call {small} times within the last {days} days.",
    "No data is lost, but {customer} has to work around it by hand.",
    "So far only {port} is affected, but nothing in it is specific to {port}.",
    "We agreed in {inc} to fix this within {days} days.",
)
NOTES: tuple[str, ...] = (
    "The dashboard is `{component}-overview`, panel {n}.",
    "{customer} can work around it for another {days} days.",
    "{change} tried to fix a part of it and was reverted.",
    "#{issue} has the background.",
    "To reproduce: staging in {region}, any account, {n} tries are enough.",
    "@{user} and @{other} have looked at it during the last on-call week.",
    "I would like to hear from somebody who runs {port}.",
    "Volume: {big} a day in {region}, {pct} % of it from {customer}.",
)
REMARKS: tuple[str, ...] = (
    "+1, we saw the same thing in {inc}.",
    "For the record: {customer} has this on their list for the next quarterly review.",
    "Can we get a number for {region} as well? It has the slowest disks.",
    "I have asked @{user} to look at the dashboards; nothing unusual in {region} since {version}.",
    "Let us keep this out of {next} and take the next train.",
    "Small thing: the runbook still describes the old behaviour.",
    "This overlaps with {change}, please rebase on it before you measure anything.",
    "Checked on staging: same picture, {slow} ms against {fast} ms.",
    "{customer} confirmed that they can live with either, as long as it is announced {days} days ahead.",
    "I would not worry about {port}, it has {pct} % of the volume.",
    "The dashboard is `{component}-overview`, panel {n}.",
    "Do we have a test that fails without this? I could not find one near `{path}`.",
    "I ran it {n} times, the spread is below two percent.",
    "Reading `{path}` again, I think the comment above line {line} is what misled me.",
    "#{issue} has the background, it is worth five minutes.",
    "Please keep the flag for one release, {customer} upgrades late.",
    "Quick poll with the {component} team: four in favour, nobody against.",
    "I would rather see this behind a flag in {region} first.",
)
NITS: tuple[str, ...] = (
    "nit: the name says what it does, not why. `{n}` deserves a constant.",
    "nit: this comment repeats the code, I would drop it.",
    "nit: early return here would save one level of indentation.",
    "nit: the log line should carry the account, otherwise we cannot filter by {customer}.",
    "Could this be a table test? There are {small} cases and only two are written down.",
    "Why a pointer here? It is never nil as far as I can see.",
    "This error is swallowed. If that is intended, please say so next to it.",
    "Typo in the message, otherwise fine.",
    "suggestion: move this next to its only caller.",
    "The timeout is {n} s here and 30 s in the client, one of them never fires.",
)
REVIEW_PROBLEMS: tuple[str, ...] = (
    "Before we merge this, let us look at what it has to solve. ",
    "Line {line} is where it happens, right? ",
    "Context for the other reviewers: ",
    "I do not think that this line fixes it yet. ",
)
REVIEW_QUESTIONS: tuple[str, ...] = (
    "I stumbled over this line. ",
    "Question about the approach here. ",
    "Not obvious to me from `{path}`: ",
    "",
)
REVIEW_OBJECTIONS: tuple[str, ...] = (
    "This is the part I am least sure about. ",
    "Blocking for me until we have talked about it. ",
    "I have a concern here. ",
    "",
)
PROPOSALS: tuple[str, ...] = (
    "What about {name}? In its favour: {pro}.",
    "Did we consider {name}? The attraction is clear: {pro}.",
    "My first thought was {name}: {pro}.",
    "The cheap way out would be {name}: {pro}.",
)
REBUTTALS: tuple[str, ...] = (
    "The trouble with {rival}: {con}. I would rather take {name}: {pro}.",
    "We tried something close to {rival} once, and remember: {con}. {Name} looks better to me: {pro}.",
    "I looked at both.\n\n- {rival}: {con}\n- {name}: {pro}\n\nThe second one, please.",
    "Against {rival}: {con}. For {name}: {pro}.",
)
PRICES: tuple[str, ...] = (
    "{Name} has a price, too: {con}. I can live with that.",
    "To be fair about {name}: {con}. Still the better deal.",
    "Known downside of {name}, to be written into the runbook: {con}.",
)
# How a move may be introduced, by its kind.
LEADS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "proposal": (
            "",
            "Let me play devil's advocate. ",
            "Just to have it said: ",
            "@{user} and I talked about this at lunch. ",
            "Since {version} there is another way. ",
        ),
        "objection": (
            "",
            "I see it differently. ",
            "One concern: ",
            "@{user} ",
            "After {inc} I am careful here. ",
            "Speaking for {region}: ",
            "I have looked at #{issue} again. ",
        ),
        "answer": (
            "",
            "Fair point. ",
            "@{user} ",
            "Good that you ask. ",
            "I checked with @{other}. ",
            "I had the same worry in {change}. ",
            "Looked it up for {region}. ",
        ),
        "measure": (
            "",
            "To add some data: ",
            "Numbers, as promised. ",
            "Measured it over {n} runs. ",
            "From the notebook linked in {change}: ",
            "@{user} asked for numbers. ",
        ),
        "question": (
            "",
            "Coming back to this. ",
            "One more thing. ",
            "@{user} ",
            "{customer} asked, too: ",
            "#{issue} asks: ",
        ),
        "price": ("", "For completeness. ", "@{user} ", "So that nobody in {region} is surprised. "),
        "aside": ("", "", "Sorry for the late answer. ", "@{user} ", "Unrelated to the choice, but: "),
    }
)
# What may follow a move, by its kind.
EXTRAS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "proposal": (" @{other} you wrote something like it in {change}.", " It would be done by {next}."),
        "objection": (
            " {customer} would notice.",
            " It is the same pattern as in #{issue}.",
            " That is also what we wrote after {inc}.",
            "\n\nI mean `{path}`, line {line}.",
            " @{other} you were there.",
        ),
        "answer": (
            " See {change} for the details.",
            " @{other} can you confirm?",
            " That is also what #{issue} says.",
            "\n\nThe relevant part is `{path}`, line {line}.",
            " I will add it to the description.",
        ),
        "measure": (
            " (That was on {version}.)",
            " I have put the query into the {component} notebook.",
            " {region} is the one to watch.",
            " Raw numbers are in {change}.",
            " @{other} please repeat it on your machine.",
        ),
    }
)
# What may follow a decision: who does what, and when.
FOLLOW_UPS: tuple[str, ...] = (
    "",
    "",
    "\n\n- [ ] change: @{user}\n- [ ] runbook: @{other}",
    "\n\n{region} goes first, the rest a week later.",
    " I will tell {customer}.",
    " Target: {next}.",
    " Implementation in {change}.",
    " If the numbers in {region} look different after {days} days, we reopen this.",
)
TESTING: tuple[str, ...] = (
    "Unit tests for the happy path and for the {small} cases from {inc}.",
    "Replayed one day of {region} traffic against a restored copy.",
    "Ran on staging for {days} days; no alert, no diff in the nightly reconciliation.",
    "Contract tests of `{component}` pass with the old and with the new client.",
    "Tested by hand with the data of {customer} (anonymised copy).",
)
ROLLOUTS: tuple[str, ...] = (
    "Behind the flag `{component}.{tag}`; {region} first, the rest after {days} days.",
    "No flag: the change is backwards compatible and can be reverted alone.",
    "Migration first, then the code; both steps are safe to repeat.",
    "Deploy with {next}; announce to {customer} before.",
    "Dark for {days} days: compute both, compare, answer with the old one.",
)
