"""Show one stored issue, merge request, topic or post with its conversation.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import (
    ENVELOPE_TOKENS,
    Instant,
    answer_tokens,
    copy_fields,
    fitting,
    flag,
    instant,
    means,
    require_fit,
)
from tidelore.app.listing import ListedPost, ListedTopic, listed_post, topic_answer
from tidelore.app.reading.lockdown import Lockdown, find_lockdown
from tidelore.app.wiring import App
from tidelore.core.references import Kind, parse_post_reference, parse_reference, parse_topic_reference
from tidelore.core.text import excerpt
from tidelore.store.database.port import Database
from tidelore.store.reading.conversations import (
    Conversation,
    IssueRow,
    MergeRequestRow,
    NoteRow,
    Thread,
    read_conversation,
    resolve,
)
from tidelore.store.reading.posts import PostRow, read_post, resolve_post
from tidelore.store.reading.topics import TopicCommentRow, read_topic, resolve_topic


class NotePosition(Struct, frozen=True):
    """The position of a note in a diff."""

    type: Annotated[str | None, means("text, image or file")]
    old_path: Annotated[str | None, means("the file's path before", untrusted=True)]
    new_path: Annotated[str | None, means("the file's path after", untrusted=True)]
    old_line: Annotated[int | None, means("the line before, or null")]
    new_line: Annotated[int | None, means("the line after, or null")]
    range_start: Annotated[int | None, means("the first line of several, or null")]
    range_end: Annotated[int | None, means("the last line of several, or null")]
    base_sha: Annotated[str | None, means("the commit the branches have in common", sha=True)]
    start_sha: Annotated[str | None, means("the commit compared with", sha=True)]
    head_sha: Annotated[str | None, means("the commit commented on", sha=True)]

    @property
    def text(self) -> str:
        """The position as text, such as `src/auth/login.ts:45-48`.

        A removed line is a line of the old file; a renamed file is shown with both names.
        """
        old, new = self.old_path, self.new_path
        if self.new_line is None and self.old_line is not None:
            path, line = old or new, self.old_line
        else:
            path = f"{old} -> {new}" if old and new and old != new else new or old
            line = self.new_line or 0
        if self.range_start is not None and self.range_end is not None and self.range_start < self.range_end:
            return f"{path}:{self.range_start}-{self.range_end}"
        return f"{path}:{line}" if line else path or ""


class ShownNote(Struct, frozen=True, kw_only=True):
    """One note of a discussion."""

    id: Annotated[int, means("id on the server")]
    type: Annotated[str | None, means("DiffNote, DiscussionNote, or null")]
    system: Annotated[bool, means("whether it is a system note")]
    internal: Annotated[bool, means("whether it is an internal note, visible to project members only")]
    author: Annotated[str | None, means("who wrote it")]
    body: Annotated[str, means("its Markdown source", untrusted=True)]
    created_at: Annotated[Instant, means("when it was written")]
    updated_at: Annotated[Instant, means("when it was last edited")]
    resolvable: Annotated[bool, means("whether it can be resolved")]
    resolved: Annotated[bool | None, means("whether it is, or null if that is unknown")]
    resolved_by: Annotated[str | None, means("who resolved it, or null")]
    resolved_at: Annotated[Instant | None, means("when, or null")]
    position: Annotated[NotePosition | None, means("null, or its position in the diff")]
    url: Annotated[str | None, means("its address, or null where the forge sends none")]
    association: Annotated[str | None, means("the author's relation to the repository, or null")]
    review_state: Annotated[str | None, means("of a review: APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED")]
    truncated: Annotated[bool | None, means("true if --max-tokens shortened its body, or null")] = None

    @property
    def place(self) -> str | None:
        """The position in the diff as text, or None."""
        return None if self.position is None else self.position.text


class ShownDiscussion(Struct, frozen=True):
    """A discussion with its notes in order."""

    id: Annotated[str, means("id on the server")]
    individual: Annotated[bool, means("whether it is a single note")]
    resolvable: Annotated[bool, means("whether it can be resolved")]
    resolved: Annotated[bool | None, means("whether it is, or null if that is unknown")]
    notes: list[ShownNote]
    notes_left_out: Annotated[int | None, means("notes after the first that --max-tokens omitted, or null")] = None


class ItemEvents(Struct, frozen=True):
    """How many events of each kind an item has."""

    state: Annotated[int, means("how often it was closed, reopened or merged")]
    label: Annotated[int, means("how often a label was added or removed")]
    milestone: Annotated[int, means("how often a milestone was added or removed", untrusted=True)]
    timeline: Annotated[
        int, means("other events: assignments, review requests, force-pushes, references from elsewhere")
    ]


class ShownItem(Struct, frozen=True, kw_only=True):
    """What issues and merge requests have in common."""

    project: Annotated[str, means("the project's path")]
    iid: Annotated[int, means("its number in the project")]
    reference: Annotated[str | None, means("its full reference, such as group/project#12 or group/project!12")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    assignees: Annotated[tuple[str, ...], means("its assignees")]
    labels: Annotated[tuple[str, ...], means("its labels", untrusted=True)]
    milestone: Annotated[str | None, means("its milestone, or null", untrusted=True)]
    created_at: Annotated[Instant, means("when it was created")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    closed_at: Annotated[Instant | None, means("when it was closed, or null")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its address")]
    description: Annotated[str | None, means("its Markdown source", untrusted=True)]
    events: ItemEvents
    discussions: list[ShownDiscussion]
    discussions_total: Annotated[int, means("how many discussions there are, including those hidden by --notes")]
    discussions_read: Annotated[bool, means("whether they were ever read")]
    discussions_fresh: Annotated[bool, means("whether they are up to date with this version")]
    discussions_error: Annotated[str | None, means("why the last read failed, or null")]
    truncated: Annotated[bool | None, means("true if --max-tokens omitted something, or null")] = None
    next: Annotated[int | None, means("the value for --skip that shows the discussions before these, or null")] = None


class ClosingMergeRequest(Struct, frozen=True):
    """A merge request that closes the issue."""

    project: Annotated[str, means("where a merge request that closes it belongs")]
    iid: Annotated[int, means("its number there")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("its state")]
    web_url: Annotated[str | None, means("its address")]

    @property
    def reference(self) -> str:
        """Its reference as its forge writes it; that of the issue does not tell the forge, because both write #."""
        is_pull = self.web_url is not None and self.web_url.endswith(f"/pull/{self.iid}")
        return f"{self.project}{'#' if is_pull else '!'}{self.iid}"


class ShownIssue(ShownItem, frozen=True, kw_only=True):
    """The answer of `lore show issue`."""

    type: Annotated[str | None, means("issue, incident, task and the like")]
    status: Annotated[str | None, means("its work item status, or null")]
    status_category: Annotated[str | None, means("the category of that status, or null")]
    confidential: Annotated[bool, means("whether it is confidential")]
    discussion_locked: Annotated[bool, means("whether only members may comment")]
    due_date: Annotated[str | None, means("when it is due, or null")]
    time_estimate_seconds: Annotated[int, means("its time estimate")]
    time_spent_seconds: Annotated[int, means("its time spent")]
    closed_by: list[ClosingMergeRequest]


class ClosedIssue(Struct, frozen=True):
    """An issue that the merge request closes."""

    key: Annotated[str, means("the id of an issue it closes; of another tracker, its key")]
    iid: Annotated[int | None, means("its number, or null")]
    reference: Annotated[str | None, means("its full reference, or null")]
    title: Annotated[str | None, means("its title", untrusted=True)]
    web_url: Annotated[str | None, means("its address")]


class ChangedFile(Struct, frozen=True):
    """A file that the merge request changes."""

    old_path: Annotated[str, means("a changed file's path before, at the newest head that was read", untrusted=True)]
    new_path: Annotated[str, means("its path after", untrusted=True)]
    new_file: Annotated[bool, means("whether it is new")]
    renamed_file: Annotated[bool, means("whether it was renamed")]
    deleted_file: Annotated[bool, means("whether it was deleted")]


class ShownMergeRequest(ShownItem, frozen=True, kw_only=True):
    """The answer of `lore show mr`."""

    draft: Annotated[bool, means("whether it is a draft")]
    reviewers: Annotated[tuple[str, ...], means("who is asked to review it")]
    source_branch: Annotated[str | None, means("the branch it comes from", untrusted=True)]
    target_branch: Annotated[str | None, means("the branch it goes to", untrusted=True)]
    head_sha: Annotated[str | None, means("its newest commit", sha=True)]
    merge_status: Annotated[str | None, means("detailed_merge_status of GitLab")]
    merged_by: Annotated[str | None, means("who merged it, or null")]
    merged_at: Annotated[Instant | None, means("when it was merged, or null")]
    closes_issues: list[ClosedIssue]
    files: list[ChangedFile]


class ShowRequest(Struct, frozen=True, kw_only=True):
    """Which item to show, and which of its discussions: with system notes, only the `last` ones.

    `skip` leaves out the newest ones, and `max_tokens` bounds the answer: the newest that fit are shown.
    """

    kind: Kind
    reference: str
    project: str | None = None
    system: bool = False
    last: int | None = None
    skip: int = 0
    max_tokens: int | None = None


def show_item(app: App, request: ShowRequest) -> ShownIssue | ShownMergeRequest:
    """Return an issue or merge request with its discussions."""
    meant = parse_reference(request.reference, request.kind)
    default = app.config.default_project
    with app.reading() as database:
        row_id = resolve(database, request.kind, meant, project=request.project, default=default)
        lockdown = find_lockdown(app, database)
        item = read_item(
            database,
            request.kind,
            row_id,
            system=request.system,
            last=request.last,
            skip=request.skip,
            lockdown=lockdown,
        )
    return item if request.max_tokens is None else fit_item(item, request.max_tokens, request.skip)


def read_item(
    database: Database,
    kind: Kind,
    row_id: int,
    *,
    system: bool = False,
    last: int | None = None,
    skip: int = 0,
    lockdown: Lockdown | None = None,
) -> ShownIssue | ShownMergeRequest:
    """Read an issue or merge request with its discussions."""
    talk = read_conversation(database, kind, row_id)
    talk = talk if lockdown is None else lockdown.conversation(talk, system=system)
    threads = _spoken(talk.threads, system=system)
    chosen = threads[: max(len(threads) - skip, 0)]
    chosen = chosen if last is None else chosen[max(len(chosen) - last, 0) :]
    if isinstance(talk.parent, MergeRequestRow):
        return _shown(ShownMergeRequest, talk, chosen, len(threads), **_merge_request(talk, talk.parent))
    return _shown(ShownIssue, talk, chosen, len(threads), **_issue(talk, talk.parent))


Item = TypeVar("Item", bound=ShownItem)
_LEAST_QUOTED = 120
"""A text is not cut to fewer characters than this."""


def fit_item(item: Item, max_tokens: int, skip: int = 0) -> Item:
    """Return an item with as many of its newest discussions as the budget allows; a part of one if none fits.

    A long description is cut to a third of the budget, or to what the other fields leave. Replies leave out a position
    that is that of their thread. If that is still too much, only the beginnings of the description and of the newest
    discussion are kept.
    """
    fitted = _fit_parts(item, max_tokens, skip)
    return require_fit(fitted, max_tokens, item.reference or "the item", lambda: _least(item, skip))


def _least(item: Item, skip: int) -> Item:
    """Return the shortest form of an item, from which `next` leads on."""
    description = item.description and excerpt(item.description, _LEAST_QUOTED // 2)[0]
    least = replace(item, description=description, discussions=[], truncated=True, next=None)
    if isinstance(least, ShownMergeRequest):
        least = replace(least, files=[])
    if not item.discussions:
        return least
    newest = item.discussions[-1]
    first, *replies = newest.notes
    body, is_cut = excerpt(first.body, _LEAST_QUOTED // 2)
    note = replace(first, body=body, truncated=is_cut or None)
    thread = replace(newest, notes=[note], notes_left_out=len(replies) or None)
    return replace(least, discussions=[thread], next=skip + 1 if len(item.discussions) > 1 else None)


def _fit_parts(item: Item, max_tokens: int, skip: int) -> Item:
    description, is_cut = (None, False)
    if item.description is not None:
        description, is_cut = excerpt(item.description, max(max_tokens * 4 // 3, _LEAST_QUOTED))
    bare = replace(item, description=description, discussions=[], truncated=True, next=10**6)
    if isinstance(bare, ShownMergeRequest):
        files = fitting(bare.files, max_tokens // 4)
        is_cut, bare = is_cut or files < len(bare.files), replace(bare, files=bare.files[:files])
    room = max_tokens - ENVELOPE_TOKENS - answer_tokens(bare)
    if bare.description is not None and room < max_tokens // 3:
        # In a small budget the other fields take most: the description makes room for a discussion.
        longest = max(len(bare.description) - 4 * (max_tokens // 3 - room), _LEAST_QUOTED)
        description, shortened = excerpt(bare.description, longest)
        is_cut, bare = is_cut or shortened, replace(bare, description=description)
        room = max_tokens - ENVELOPE_TOKENS - answer_tokens(bare)
    kept: list[ShownDiscussion] = []
    for thread in reversed(item.discussions):
        short = _without_repeated_positions(thread)
        room -= answer_tokens(short) + 1
        if room < 0:
            kept += [] if kept else [_part_of(short, room + answer_tokens(short))]
            break
        kept.append(short)
    more = len(kept) < len(item.discussions)
    is_cut = is_cut or more or any(thread.notes_left_out or thread.notes[0].truncated for thread in kept)
    return replace(bare, discussions=kept[::-1], truncated=is_cut or None, next=skip + len(kept) if more else None)


def _without_repeated_positions(thread: ShownDiscussion) -> ShownDiscussion:
    first, *replies = thread.notes
    notes = [replace(note, position=None) if note.position == first.position else note for note in replies]
    return replace(thread, notes=[first, *notes])


def _part_of(thread: ShownDiscussion, room: int) -> ShownDiscussion:
    """Return the first note of a thread and as many of the last ones as fit; long texts are cut."""
    first, *replies = thread.notes
    first, kept = _cut_note(first, room // 3), []
    room -= answer_tokens(replace(thread, notes=[first], notes_left_out=len(replies)))
    for note in reversed(replies):
        short = _cut_note(note, max(room // 2, _LEAST_QUOTED // 4))
        room -= answer_tokens(short) + 1
        if room < 0:
            break
        kept.append(short)
    left_out = len(replies) - len(kept)
    return replace(thread, notes=[first, *reversed(kept)], notes_left_out=left_out or None)


def _cut_note(note: ShownNote, tokens: int) -> ShownNote:
    body, is_cut = excerpt(note.body, max(tokens * 4, _LEAST_QUOTED))
    return replace(note, body=body, truncated=True) if is_cut else note


def _shown(shape: type[Item], talk: Conversation, threads: list[ShownDiscussion], total: int, **others: Any) -> Item:
    parent = talk.parent
    return copy_fields(
        shape,
        parent,
        project=talk.project,
        reference=parent.references_full,
        author=parent.author_username,
        assignees=talk.assignees,
        labels=talk.labels,
        milestone=parent.milestone_title,
        events=ItemEvents(**talk.events),
        discussions=threads,
        discussions_total=total,
        truncated=None,
        next=None,
        **others,
    )


def _issue(talk: Conversation, parent: IssueRow) -> dict[str, Any]:
    """Return the fields that only issues have, where they differ from the columns."""
    return {
        "type": parent.issue_type,
        "status": parent.status_name,
        "closed_by": [copy_fields(ClosingMergeRequest, row) for row in talk.closed_by],
    }


def _merge_request(talk: Conversation, parent: MergeRequestRow) -> dict[str, Any]:
    """Return the fields that only merge requests have, where they differ from the columns."""
    return {
        "reviewers": talk.reviewers,
        "merge_status": parent.detailed_merge_status,
        "merged_by": parent.merge_user_username,
        "closes_issues": [
            ClosedIssue(row.issue_key, row.issue_iid, row.reference, row.title, row.web_url) for row in talk.closes
        ],
        "files": [copy_fields(ChangedFile, file) for file in talk.files],
    }


def _spoken(threads: Sequence[Thread], *, system: bool) -> list[ShownDiscussion]:
    """Return the discussions that have a shown note, with these notes."""
    found = []
    for thread in threads:
        notes = [_note(note) for note in thread.notes if (system or not note.is_system) and _says_something(note)]
        if notes:
            flags = (bool(thread.individual_note), bool(thread.resolvable), flag(thread.resolved))
            found.append(ShownDiscussion(thread.remote_id, *flags, notes))
    return found


def _says_something(note: NoteRow) -> bool:
    """Return False for a review without a text and a decision, which only holds its comments together."""
    return bool(note.body) or note.review_state not in (None, "COMMENTED") or bool(note.is_system)


def _note(note: NoteRow) -> ShownNote:
    return copy_fields(
        ShownNote,
        note,
        id=note.remote_id,
        type=note.note_type,
        system=note.is_system,
        internal=note.is_internal,
        author=note.author_username,
        position=_position(note) if note.is_placed else None,
        association=note.author_association,
        truncated=None,
    )


def _position(note: NoteRow) -> NotePosition:
    return NotePosition(
        note.position_type,
        note.position_old_path,
        note.position_new_path,
        note.position_old_line,
        note.position_new_line,
        note.position_line_range_start,
        note.position_line_range_end,
        note.position_base_sha,
        note.position_start_sha,
        note.position_head_sha,
    )


class PostLink(Struct, frozen=True):
    """A link in a post."""

    url: Annotated[str, means("a link, normalised")]
    raw: Annotated[str, means("the link as it was written", untrusted=True)]
    title: Annotated[str | None, means("the title on its card, or null", untrusted=True)]
    description: Annotated[str | None, means("the description on its card, or null", untrusted=True)]


class BriefPost(Struct, frozen=True):
    """A post near the shown one."""

    uri: Annotated[str, means("its address")]
    kind: Annotated[str, means("its kind")]
    author: Annotated[str, means("its author")]
    text: Annotated[str, means("its text", untrusted=True)]
    created_at: Annotated[Instant, means("when it was written")]
    web_url: Annotated[str | None, means("its page")]


class ShownPost(ListedPost, frozen=True, kw_only=True):
    """The answer of `lore show post`."""

    cid: Annotated[str, means("the version that is stored")]
    reply_root: Annotated[str | None, means("the address of the post its thread begins with, or null")]
    indexed_at: Annotated[Instant | None, means("when the network indexed it, or null")]
    embed: Annotated[str | None, means("what is embedded: images, external, record and the like, or null")]
    links: list[PostLink]
    parent: Annotated[BriefPost | None, means("null, or the parent post")]
    quoted: Annotated[BriefPost | None, means("null, or the post it quotes")]
    replies: Annotated[list[BriefPost], means("its replies, the oldest first, at most 50")]
    replies_total: Annotated[int, means("how many replies are stored")]
    reposters: Annotated[tuple[str, ...], means("who reposted it")]
    truncated: Annotated[bool | None, means("true if --max-tokens omitted replies or reposters, or null")] = None


def show_post(app: App, reference: str, max_tokens: int | None = None) -> ShownPost:
    """Return a post with its links and replies; `max_tokens` bounds the answer."""
    meant = parse_post_reference(reference)
    with app.reading() as database:
        post = read_shown_post(database, resolve_post(database, meant), find_lockdown(app, database))
    return post if max_tokens is None else fit_post(post, max_tokens)


def fit_post(post: ShownPost, max_tokens: int) -> ShownPost:
    """Return a post with as many of its reposters and replies as the budget allows."""
    people = fitting(post.reposters, max_tokens // 4)
    bare = replace(post, replies=[], reposters=post.reposters[:people], truncated=True)
    kept = fitting(post.replies, max_tokens, besides=answer_tokens(bare))
    is_cut = kept < len(post.replies) or people < len(post.reposters)
    fitted = replace(bare, replies=post.replies[:kept], truncated=is_cut or None)
    return require_fit(fitted, max_tokens, "the post")


def read_shown_post(database: Database, post_id: int, lockdown: Lockdown | None = None) -> ShownPost:
    """Read a post with its links and replies."""
    view = read_post(database, post_id)
    view = view if lockdown is None else lockdown.post(view)
    return copy_fields(
        ShownPost,
        listed_post(view.post),
        cid=view.post.cid,
        reply_root=view.post.reply_root,
        indexed_at=view.post.indexed_at,
        embed=view.post.embed_kind,
        links=[copy_fields(PostLink, link) for link in view.links],
        parent=None if view.parent is None else _brief(view.parent),
        quoted=None if view.quoted is None else _brief(view.quoted),
        replies=[_brief(reply) for reply in view.replies],
        replies_total=view.replies_total,
        reposters=view.reposters,
        truncated=None,
    )


def _brief(row: PostRow) -> BriefPost:
    return BriefPost(row.uri, row.kind, row.author, row.text, instant(row.created_at), row.url)


class ShownTopicComment(Struct, frozen=True, kw_only=True):
    """A comment of a topic, or a reply."""

    id: Annotated[int, means("id on the server")]
    in_reply_to: Annotated[int | None, means("the comment that a reply belongs to, or null")]
    author: Annotated[str | None, means("who wrote it")]
    association: Annotated[str | None, means("the author's relation to the repository, or null")]
    body: Annotated[str, means("its Markdown source", untrusted=True)]
    answer: Annotated[bool, means("whether it was chosen as the answer")]
    upvotes: Annotated[int, means("votes for it")]
    created_at: Annotated[Instant, means("when it was written")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    deleted_at: Annotated[Instant | None, means("when it was deleted, if it stays because it has replies, or null")]
    url: Annotated[str | None, means("its address")]


class ShownTopic(ListedTopic, frozen=True, kw_only=True):
    """The answer of `lore show topic`."""

    body: Annotated[str | None, means("its Markdown source", untrusted=True)]
    thread: Annotated[list[ShownTopicComment], means("its comments in order, each followed by its replies")]
    truncated: Annotated[bool | None, means("true if --max-tokens omitted something, or null")] = None
    next: Annotated[int | None, means("the value for --skip that shows the comments after these, or null")] = None


def show_topic(
    app: App, reference: str, project: str | None = None, *, skip: int = 0, max_tokens: int | None = None
) -> ShownTopic:
    """Return a topic with its comments; `skip` leaves out the first ones, `max_tokens` bounds the answer."""
    meant = parse_topic_reference(reference)
    with app.reading() as database:
        default = app.config.default_project
        row_id = resolve_topic(database, meant, project=project, default=default)
        topic = read_shown_topic(database, row_id, find_lockdown(app, database))
    topic = replace(topic, thread=topic.thread[skip:])
    return topic if max_tokens is None else fit_topic(topic, max_tokens, skip)


def fit_topic(topic: ShownTopic, max_tokens: int, skip: int = 0) -> ShownTopic:
    """Return a topic with as many of its comments as the budget allows; long texts are cut to a third of it."""
    longest = max(max_tokens * 4 // 3, _LEAST_QUOTED)
    body, is_cut = (None, False) if topic.body is None else excerpt(topic.body, longest)
    comments = [replace(comment, body=excerpt(comment.body, longest)[0]) for comment in topic.thread]
    bare = replace(topic, body=body, thread=[], truncated=True, next=10**6)
    kept = fitting(comments, max_tokens, besides=answer_tokens(bare))
    more = kept < len(comments)
    is_cut = is_cut or more or any(new.body != old.body for new, old in zip(comments, topic.thread, strict=True))
    return replace(bare, thread=comments[:kept], truncated=is_cut or None, next=skip + kept if more else None)


def read_shown_topic(database: Database, row_id: int, lockdown: Lockdown | None = None) -> ShownTopic:
    """Read a topic with its comments."""
    row, comments = read_topic(database, row_id)
    if lockdown is not None:
        row, comments = lockdown.topic(row, comments)
    thread = [_topic_comment(comment) for comment in comments]
    return topic_answer(ShownTopic, row, thread=thread, truncated=None, next=None)


def _topic_comment(row: TopicCommentRow) -> ShownTopicComment:
    return copy_fields(ShownTopicComment, row, id=row.remote_id, answer=row.is_answer)
