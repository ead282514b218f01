"""Decision stories of customs documents: declarations, holds, signatures, and what must be kept.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

CUSTOMS: tuple[Story, ...] = (
    Story(
        slug="customs-document-versions",
        component="customs",
        labels=("customs", "compliance", "data-model"),
        titles=(
            "A corrected declaration overwrites the one that was filed",
            "Versions of customs documents",
            "{customer} cannot show what was declared in {port}",
        ),
        changes=(
            "Keep every filed version of a declaration",
            "customs: immutable document versions",
            "Store declarations by content hash",
        ),
        problems=(
            (
                "A broker corrected a weight after filing, and the document in our store is the "
                "corrected one. The authority in {port} asks for the one that was filed."
            ),
            (
                "Documents are updated in place. {small} times this year we restored one from a backup "
                "because somebody needed the version before."
            ),
            ("{customer} had an inspection, and our PDF did not match the one that the inspector held in hand."),
        ),
        options=(
            Option(
                "a history table for changed fields",
                "small",
                "cannot reproduce the document as it looked",
            ),
            Option(
                "immutable versions, addressed by their content",
                "exactly what was filed, provable by its hash",
                "{gb} GB more in {region} for a year",
            ),
            Option(
                "versioning in the object store",
                "switched on with a setting",
                "expires by rules that nobody in compliance can see",
            ),
        ),
        chosen=1,
        objection=(
            "We must be able to erase personal data. An immutable store and a right to erasure do not go together."
        ),
        answer=(
            "Names and addresses are encrypted with a key for each person; erasing the key erases them "
            "in each version, and the hashes stay valid."
        ),
        question="Which version does the API return by default?",
        reply="The last one that was filed. Drafts are visible only to the broker.",
        measure="{pct} % of the documents have a second version, 0.7 % have more than three.",
        decision=(
            "keep each filed version immutable under its content hash, with personal data encrypted by erasable keys"
        ),
        reason="only the document that was filed counts in front of an authority",
        spots=(
            Spot("services/customs/customs/store/versions.py", 25, 108),
            Spot("services/customs/customs/crypto/personal.py", 14, 66),
        ),
    ),
    Story(
        slug="customs-hs-suggestions",
        component="customs",
        labels=("customs", "product", "ml"),
        titles=(
            "HS code suggestions are accepted without being read",
            "Wrong HS codes from the classifier for {customer}",
            "Should we preselect a suggested HS code?",
        ),
        changes=(
            "Show HS suggestions without preselecting one",
            "customs: ask for a reason when codes differ",
            "Rank HS codes and let people choose",
        ),
        problems=(
            (
                "The first suggestion is preselected, and {pct} % of the users click on without looking. "
                "{customer} paid a fine for {small} declarations."
            ),
            ("The classifier is right in 91 % of cases, and the form behaves as if it were always right."),
            "Brokers told us that they trust the tool until the first fine and never again after it.",
        ),
        options=(
            Option(
                "a better model",
                "fewer wrong codes",
                "the remaining ones are still accepted blindly",
            ),
            Option(
                "a ranked list with nothing preselected",
                "a person decides, in four seconds more",
                "the form becomes slower for routine goods",
            ),
            Option(
                "no suggestions",
                "nobody can blame us",
                "back to {small} minutes for each line",
            ),
        ),
        chosen=1,
        objection=(
            "Four seconds times {big} lines is more than a full position at {customer}. They will ask us "
            "to switch it off."
        ),
        answer=(
            "Goods that the same customer declared before keep their code without asking. Only new goods "
            "cost the four seconds."
        ),
        question="What do we log for an audit?",
        reply="The list that was shown, its order, what was chosen and by whom.",
        measure=(
            "In a trial with {small} brokers: wrong codes from {pct} to 1.8 %, median time for a new "
            "line from 6 to 10 s."
        ),
        decision=(
            "show ranked HS codes with nothing preselected, and reuse only codes the customer has declared before"
        ),
        reason="the liability lies with the person, so the choice must lie there, too",
        spots=(
            Spot("apps/console/src/customs/HsPicker.tsx", 31, 120),
            Spot("services/customs/customs/classify/rank.py", 48, 97),
        ),
    ),
    Story(
        slug="customs-filing-retries",
        component="customs",
        labels=("customs", "reliability", "integration"),
        titles=(
            "A timeout at the authority leaves us without an answer",
            "Declarations for {port} are filed twice after a timeout",
            "How do we retry a filing that may have succeeded?",
        ),
        changes=(
            "Ask for the status before filing again",
            "customs: query before retry",
            "Make filings resumable by their local reference",
        ),
        problems=(
            (
                "The authority's gateway for {port} timed out after accepting. We retried and filed "
                "twice; {customer} got two duty assessments."
            ),
            (
                "{pct} % of the filings time out at the end of the month. Some were accepted and some "
                "were not, and we cannot tell which."
            ),
            ("An operator decides by hand whether to file again. On {inc} this was done {small} times in a night."),
        ),
        options=(
            Option(
                "never retry",
                "no double filing",
                "{small} containers wait at the gate each night",
            ),
            Option(
                "a status query with our own reference before each retry",
                "the authority tells us what it has",
                "not each country offers the query",
            ),
            Option(
                "a longer timeout",
                "one number",
                "the gateway closes the connection after 60 s on its side",
            ),
        ),
        chosen=1,
        objection="Two of the countries have no status query. For them we are where we started.",
        answer=(
            "For these two the state becomes `unknown`, and a person decides. That is {small} filings in "
            "a month and not {big}."
        ),
        question="How long do we wait before we ask?",
        reply=(
            "Two minutes, then five, then fifteen. The authority's guide says that a filing is visible "
            "after ninety seconds."
        ),
        measure=(
            "Replayed the timeouts of last month: {small} of them would have been duplicates, none after the change."
        ),
        decision=(
            "query the authority by our own reference before any retry, and leave a filing to a person "
            "where no query exists"
        ),
        reason="a second filing costs the customer money, and a question costs two minutes",
        spots=(
            Spot("services/customs/customs/filing/retry.py", 20, 101),
            Spot("services/customs/customs/filing/states.py", 11, 64),
            Spot("services/customs/customs/authorities/status.py", 37, 90),
        ),
    ),
    Story(
        slug="customs-pdf-rendering",
        component="customs",
        labels=("customs", "performance", "infra"),
        titles=(
            "PDF rendering takes {slow} ms and half of the memory",
            "Headless browser for customs PDFs runs out of memory",
            "Replace the browser-based PDF renderer",
        ),
        changes=(
            "Render customs documents with a typesetting library",
            "customs: drop the headless browser",
            "Typeset PDFs in process",
        ),
        problems=(
            (
                "Each PDF starts a headless browser. At the end of the month the renderer in {region} is "
                "killed {small} times an hour."
            ),
            ("A form of two pages takes {slow} ms and 400 MB. The form has not changed since {version}."),
            (
                "A font update in the base image moved the lines of a form, and the authority in {port} "
                "refused {small} documents."
            ),
        ),
        options=(
            Option(
                "a pool of warm browsers",
                "same templates",
                "memory grows until somebody restarts it",
            ),
            Option(
                "a typesetting library in process",
                "fast, small, the same bytes each time",
                "{small} templates have to be rewritten",
            ),
            Option(
                "a rendering service of a vendor",
                "nothing to operate",
                "customs data leaves our network",
            ),
        ),
        chosen=1,
        objection="Designers can edit HTML. Nobody here wants to edit layout code when a form changes.",
        answer=(
            "The authorities change about two forms in a year, and the layout is data: boxes in "
            "millimetres, as printed in their own guides."
        ),
        question="Do we keep right-to-left scripts?",
        reply=(
            "Yes, shaping is done by the same library the browser uses. The test set has Arabic, Hebrew and Thai names."
        ),
        measure="{slow} ms to {fast} ms for a document, 400 MB to 35 MB; two runs give identical bytes.",
        decision="typeset customs forms in process from layouts in millimetres and remove the headless browser",
        reason="a form is a fixed sheet of paper, and identical bytes can be signed and compared",
        spots=(
            Spot("services/customs/customs/render/layout.py", 28, 131),
            Spot("services/customs/customs/render/fonts.py", 10, 48),
            Spot("deploy/customs/Dockerfile", 12, 30),
        ),
    ),
    Story(
        slug="customs-hold-notifications",
        component="customs",
        labels=("customs", "events", "product"),
        titles=(
            "Customs holds reach the customer hours late",
            "Hold notifications for {port} depend on a nightly file",
            "{customer} learns about a hold from the driver",
        ),
        changes=(
            "Derive holds from gate refusals as well",
            "customs: combine authority and terminal signals for holds",
            "Notify about a hold on the first credible signal",
        ),
        problems=(
            (
                "The authority in {port} sends holds in a file at 02:00. The terminal refuses the "
                "container at 09:00, and nobody connects the two until the next night."
            ),
            (
                "{customer} sent {small} trucks for containers on hold last week. Each trip costs them "
                "more than our fee."
            ),
            ("We know about a hold {small} hours before we say so, because we wait for the official message."),
        ),
        options=(
            Option(
                "the official message only",
                "never wrong",
                "late by half a day",
            ),
            Option(
                "a suspected hold from terminal signals, confirmed later",
                "early and clearly marked",
                "a few suspicions turn out to be wrong",
            ),
            Option(
                "a call centre",
                "exact",
                "does not scale to {big} containers",
            ),
        ),
        chosen=1,
        objection=(
            "A false alarm stops a truck for nothing. Do that twice, and the customer ignores the third, which is real."
        ),
        answer=(
            "Only two refusal codes are used; together they were right in 96 % of {big} cases, and the "
            'message says "suspected".'
        ),
        question="Who withdraws a suspicion?",
        reply=("The next gate event does, or the official file. It is withdrawn by message, as it was raised."),
        measure="Median warning {small} hours earlier in {port}; four suspicions in a hundred are withdrawn.",
        decision=(
            "raise a suspected hold on the two reliable refusal codes and confirm or withdraw it by the "
            "official message"
        ),
        reason="an early and honest maybe saves the trip that a late certainty does not",
        spots=(
            Spot("services/customs/customs/holds/signals.py", 22, 89),
            Spot("services/customs/customs/holds/notify.py", 15, 70),
        ),
    ),
)
