"""Decision stories of the web console: tables, search, accessibility, and what a page may cost.

Owns data only; the slots in braces are filled by a topic.
"""

from __future__ import annotations

from ..model import Option, Spot, Story

CONSOLE: tuple[Story, ...] = (
    Story(
        slug="console-table-virtualisation",
        component="console",
        labels=("console", "frontend", "performance"),
        titles=(
            "Container table freezes with {big} rows",
            "Scrolling in the container list takes {slow} ms a frame",
            "{customer}: the console is unusable with all containers open",
        ),
        changes=(
            "Page the container table on the server",
            "console: keyset paging for large tables",
            "Load table rows as they are needed",
        ),
        problems=(
            (
                "{customer} has {big} containers, and the table loads all of them. The first paint takes "
                "{slow} ms, sorting freezes the tab."
            ),
            "The browser holds {gb}0 MB for a table of which forty rows are visible.",
            "Planners keep the tab open all day. By noon it is killed by the browser.",
        ),
        options=(
            Option(
                "virtual rows over all data in memory",
                "scrolling is smooth",
                "the data still has to arrive and be held",
            ),
            Option(
                "keyset paging on the server, with virtual rows on top",
                "constant memory and time",
                "sorting by any column needs an index",
            ),
            Option(
                "a limit of 1,000 rows",
                "done today",
                "planners need the 1,001st",
            ),
        ),
        chosen=1,
        objection=(
            "Find in page does not work with virtual rows. Our planners use it all the time; I sat next to them."
        ),
        answer=(
            "The search field gets the same shortcut and searches on the server, all rows and not only "
            "those on the screen."
        ),
        question="Which columns can be sorted?",
        reply=("Eight of twenty-two. In the usage data the others were sorted {small} times in a month, by us."),
        measure="First paint {fast} ms and not {slow} ms, memory flat at 60 MB after an hour of scrolling.",
        decision=(
            "page large tables on the server by keyset and render only visible rows, with a server "
            "search on the find shortcut"
        ),
        reason="what does not fit on a screen should not travel to it",
        spots=(
            Spot("apps/console/src/table/usePagedRows.ts", 20, 118),
            Spot("services/tracking/internal/query/keyset.go", 25, 90),
        ),
    ),
    Story(
        slug="console-saved-views",
        component="console",
        labels=("console", "product", "api"),
        titles=(
            "Saved views break when a column is renamed",
            "How do we store saved views?",
            "{small} saved views of {customer} are empty since {version}",
        ),
        changes=(
            "Store views as versioned queries",
            "console: migrate saved views on read",
            "Give saved views a schema version",
        ),
        problems=(
            (
                "A saved view is the URL of that day. We renamed a filter in {version}, and {small} "
                "views of {customer} show nothing, without a word."
            ),
            (
                "Views are shared by mail as links. Some of them are {days} months old, and nobody dares "
                "to clean up parameters."
            ),
            "An empty table looks like an empty terminal. {customer} cancelled a shift because of it.",
        ),
        options=(
            Option(
                "redirects for renamed parameters",
                "quick",
                "a growing list that nobody owns",
            ),
            Option(
                "views as stored queries with a version, migrated on read",
                "can be validated, listed and fixed",
                "links need an id and a permission",
            ),
            Option(
                "no renaming ever",
                "no code",
                "it happens anyway",
            ),
        ),
        chosen=1,
        objection=("A link that carries its own filter works for anyone. With an id, sharing across companies stops."),
        answer=(
            "Sharing across companies stops on purpose: security asked for it. Inside a company nothing "
            "changes for the user."
        ),
        question="What happens to a view that cannot be migrated?",
        reply=(
            "It opens with a message that names the unknown filter, and shows the rest. Never an empty "
            "table without a reason."
        ),
        measure="{big} stored links: 98.9 % migrate without loss, the rest name a column that is gone.",
        decision=(
            "store saved views as versioned queries, migrate them on read, and name a filter that no longer exists"
        ),
        reason="an empty table must mean that there is nothing, not that we forgot a name",
        spots=(
            Spot("apps/console/src/views/migrate.ts", 12, 95),
            Spot("services/gateway/internal/views/store.go", 30, 84),
        ),
    ),
    Story(
        slug="console-keyboard-access",
        component="console",
        labels=("console", "accessibility", "frontend"),
        titles=(
            "Berth plan cannot be used without a mouse",
            "Accessibility audit: {small} findings in the berth plan",
            "Keyboard access for drag and drop in {port}'s plan",
        ),
        changes=(
            "Make the berth plan operable by keyboard",
            "console: grid semantics for the berth plan",
            "Add move commands to the berth plan",
        ),
        problems=(
            (
                "The plan is a canvas with drag and drop. A planner in {port} with a screen reader "
                "cannot read it at all."
            ),
            (
                "The audit has {small} findings, and all but two are in the berth plan. A public tender "
                "requires them fixed."
            ),
            (
                "Power users at {customer} ask for shortcuts: moving a call by 15 minutes takes them "
                "{small} tries with the mouse."
            ),
        ),
        options=(
            Option(
                "a table next to the canvas",
                "accessible at once",
                "two screens that drift apart",
            ),
            Option(
                "a real grid in the page with move commands",
                "one screen for all, and faster for experts",
                "the drawing code has to be rewritten",
            ),
            Option(
                "labels on the canvas",
                "cheap",
                "passes the checker and helps nobody",
            ),
        ),
        chosen=1,
        objection=("A grid of {big} cells in the page will be slower than the canvas. That is why we have a canvas."),
        answer=(
            "Only what is visible is in the page: at most 40 berths by 72 hours. It scrolls at 60 frames "
            "on the oldest terminal PC."
        ),
        question="Does drag and drop stay?",
        reply="Yes, it calls the same move command. Each change can be undone in either way.",
        measure="Moving a call: 2.1 s by keyboard, 6.8 s by mouse in a test with {small} planners.",
        decision=("rebuild the berth plan as a real grid with keyboard move commands that drag and drop also use"),
        reason="one set of commands serves everybody and can be undone, tested and described",
        spots=(
            Spot("apps/console/src/portcalls/BerthGrid.tsx", 40, 180),
            Spot("apps/console/src/portcalls/moveCommands.ts", 15, 88),
        ),
    ),
    Story(
        slug="console-bundle-size",
        component="console",
        labels=("console", "frontend", "performance"),
        titles=(
            "The console loads {small} MB before it shows anything",
            "Start of the console takes {slow} ms in {region}",
            "Bundle grew by {pct} % since {version}",
        ),
        changes=(
            "Split the console by route and set a budget",
            "console: bundle budget in CI",
            "Load the map only where it is shown",
        ),
        problems=(
            (
                "The first page loads the map, the PDF viewer and two date libraries. In {region} that "
                "is {slow} ms before the login form."
            ),
            "Nobody notices a kilobyte. Since {version} there were {small}0 changes with a few each.",
            ("Terminal PCs in {port} have 4 GB and a slow line. Their users open the console once and never close it."),
        ),
        options=(
            Option(
                "server rendering",
                "first paint at once",
                "a second runtime to operate, and the data is private anyway",
            ),
            Option(
                "splitting by route and a budget that fails the build",
                "each page pays for itself, and it stays so",
                "somebody has to raise the budget on purpose",
            ),
            Option(
                "a smaller framework",
                "large effect",
                "{big} lines to rewrite",
            ),
        ),
        chosen=1,
        objection="A budget in CI will be raised each time it is in the way. I have raised one myself.",
        answer=(
            "Raising it needs the approval of someone outside the team and a line of reason. It is a "
            "speed bump, and that is enough."
        ),
        question="What is in the first load then?",
        reply="Login, navigation and the table. 180 KB compressed, and the map follows when it is opened.",
        measure="From {small} MB to 180 KB; time to the login form in {region} from {slow} ms to {fast} ms.",
        decision="split the console by route and fail the build when a route exceeds its byte budget",
        reason="size grows by unnoticed steps, and only a build notices each of them",
        spots=(
            Spot("apps/console/vite.config.ts", 18, 66),
            Spot("apps/console/scripts/budget.ts", 10, 58),
            Spot("apps/console/src/routes.tsx", 22, 90),
        ),
    ),
    Story(
        slug="console-global-search",
        component="console",
        labels=("console", "search", "backend"),
        titles=(
            "Search finds a container only by its exact number",
            "Global search over containers, bookings and documents",
            "{customer} types partial numbers and gets nothing",
        ),
        changes=(
            "Build global search on Postgres text search",
            "console: one search over all objects",
            "Index containers, bookings and documents for search",
        ),
        problems=(
            (
                "Users type the last four digits, a customer's reference or half of a vessel's name. We "
                "search for exact container numbers."
            ),
            ("{pct} % of the searches in {region} end without a result. Half of them are for something that exists."),
            (
                "There are three search fields on three pages. Planners of {customer} use the browser's "
                "history in their place."
            ),
        ),
        options=(
            Option(
                "a search cluster",
                "ranking and typing errors for free",
                "one more system to keep in sync, about {gb} GB",
            ),
            Option(
                "trigrams and text search in Postgres",
                "consistent with the data at once, and nothing new to run",
                "ranking is basic",
            ),
            Option(
                "prefix search only",
                "tiny",
                "does not find the last four digits",
            ),
        ),
        chosen=1,
        objection=(
            "Postgres text search will be too slow at {big} documents. We had that discussion before, and moved away."
        ),
        answer=(
            "That was on one table with a sequential scan. With a narrow search table and a trigram "
            "index it is {fast} ms at that size."
        ),
        question="How are permissions applied?",
        reply="The company id is the first column of the index; there is no query without it.",
        measure=(
            "{big} rows: p95 {fast} ms, 92 % of the failed searches of last week now have the right first result."
        ),
        decision="search all objects through one narrow Postgres table with trigram and text indexes",
        reason="fresh and permitted results matter more here than a clever ranking",
        spots=(
            Spot("services/gateway/internal/search/query.go", 30, 121),
            Spot("services/gateway/migrations/0062_search_table.sql", 1, 38),
            Spot("apps/console/src/search/SearchBox.tsx", 25, 97),
        ),
    ),
)
