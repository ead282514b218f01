"""List what is stored: issues, merge requests, topics, posts, changes of a file, and the links shared most.

Reads the local database only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tidelore.app.answers import Instant, copy_fields, instant, means, page_token
from tidelore.app.wiring import App
from tidelore.core.references import Kind, sign_of
from tidelore.store.database.port import Database
from tidelore.store.mirror.kinds import ISSUE, MERGE_REQUEST, ParentKind
from tidelore.store.mirror.projects import match_project
from tidelore.store.reading import posts, topics
from tidelore.store.reading.lists import ListedParent, ListFilter, list_parents
from tidelore.store.reading.posts import PostFilter, PostRow
from tidelore.store.reading.topics import TopicFilter, TopicRow

if TYPE_CHECKING:
    from tidelore.store.reading.file_history import FileThread, HistoryEntry, Rename

POST_KINDS = posts.KINDS


class ListedItem(Struct, frozen=True, kw_only=True):
    """The fields of an item of both lists."""

    project: Annotated[str, means("the project's path")]
    iid: Annotated[int, means("its number in the project")]
    reference: Annotated[str, means("its full reference, such as group/project#12 or group/project!12")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    milestone: Annotated[str | None, means("its milestone, or null", untrusted=True)]
    labels: Annotated[tuple[str, ...], means("its labels", untrusted=True)]
    created_at: Annotated[Instant, means("when it was created")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its address")]
    discussions: Annotated[int, means("discussions with user notes")]
    unresolved: Annotated[int, means("unresolved discussions")]


class ListedIssue(ListedItem, frozen=True, kw_only=True):
    """An issue in a list."""

    status: Annotated[str | None, means("its work item status, or null", untrusted=True)]


class ListedMergeRequest(ListedItem, frozen=True, kw_only=True):
    """A merge request in a list."""

    draft: Annotated[bool, means("whether it is a draft")]
    source_branch: Annotated[str | None, means("the branch it comes from", untrusted=True)]
    target_branch: Annotated[str | None, means("the branch it goes to", untrusted=True)]


class ListedPost(Struct, frozen=True, kw_only=True):
    """A post in a list."""

    uri: Annotated[str, means("its address")]
    kind: Annotated[str, means("post, reply, quote or repost")]
    author: Annotated[str, means("the author's handle, or the DID where no handle is known")]
    author_did: Annotated[str, means("the author's DID")]
    text: Annotated[str, means("its text; for a repost, the text of the original", untrusted=True)]
    langs: Annotated[list[str], means("its languages")]
    alt_text: Annotated[list[str], means("what its author says an image or video shows", untrusted=True)]
    labels: Annotated[list[str], means("a label that its author gave it", untrusted=True)]
    tags: Annotated[list[str], means("a tag it has beside those in its text", untrusted=True)]
    reply_to: Annotated[str | None, means("the address of the parent post, or null")]
    quotes: Annotated[str | None, means("the address of the quoted post, or null")]
    repeats: Annotated[str | None, means("the address of the reposted post, or null")]
    created_at: Annotated[Instant, means("creation time given by the author")]
    listed_at: Annotated[Instant, means("its place in the author's feed")]
    edited_at: Annotated[Instant | None, means("when an edit was found, or null")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its page")]


class ListedTopic(Struct, frozen=True, kw_only=True):
    """A topic in a list."""

    project: Annotated[str, means("the project's path")]
    iid: Annotated[int, means("its number in the project")]
    reference: Annotated[str, means("its full reference, such as owner/repo#12")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("opened or closed")]
    state_reason: Annotated[str | None, means("why it was closed, or null")]
    author: Annotated[str | None, means("who wrote it")]
    association: Annotated[str | None, means("the author's relation to the repository, or null")]
    category: Annotated[str | None, means("its category", untrusted=True)]
    answered: Annotated[bool | None, means("whether it has an answer; null in a category without answers")]
    answer_chosen_at: Annotated[Instant | None, means("when the answer was chosen, or null")]
    upvotes: Annotated[int, means("votes for it")]
    locked: Annotated[bool, means("whether it is locked")]
    comments: Annotated[int, means("comments and replies that are not deleted")]
    created_at: Annotated[Instant, means("when it was created")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    closed_at: Annotated[Instant | None, means("when it was closed, or null")]
    deleted_at: Annotated[Instant | None, means("when it was found deleted, or null")]
    web_url: Annotated[str | None, means("its address")]


class IssueList(Struct, frozen=True):
    """The answer of `lore list issues`."""

    items: list[ListedIssue]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class MergeRequestList(Struct, frozen=True):
    """The answer of `lore list mrs`."""

    items: list[ListedMergeRequest]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class TopicList(Struct, frozen=True):
    """The answer of `lore list topics`."""

    items: list[ListedTopic]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class PostPage(Struct, frozen=True):
    """The answer of `lore list posts`."""

    items: list[ListedPost]
    total: Annotated[int, means("number of matches")]
    next: Annotated[str | None, means("the token for --after, or null on the last page")]


class ListRequest(ListFilter, frozen=True, kw_only=True):
    """The filters of a list; `project` is a path or an unambiguous ending."""

    project: str | None = None


class TopicRequest(TopicFilter, frozen=True, kw_only=True):
    """The filters of a list of topics; `project` is a path or an unambiguous ending."""

    project: str | None = None


class PostRequest(PostFilter, frozen=True, kw_only=True):
    """The filters of a list of posts."""


def list_issues(app: App, request: ListRequest) -> IssueList:
    """Return one page of issues."""
    rows, total, token = _list(app, ISSUE, request)
    return IssueList([listed_parent(ListedIssue, row, "issue") for row in rows], total, token)


def list_merge_requests(app: App, request: ListRequest) -> MergeRequestList:
    """Return one page of merge requests."""
    rows, total, token = _list(app, MERGE_REQUEST, request)
    return MergeRequestList([listed_parent(ListedMergeRequest, row, "mr") for row in rows], total, token)


def list_topics(app: App, request: TopicRequest) -> TopicList:
    """Return one page of topics."""
    with app.reading() as database:
        if request.project:
            request = replace(request, project_id=match_project(database, request.project).id)
        found = topics.list_topics(database, request)
    return TopicList([topic_answer(ListedTopic, row) for row in found.items], found.total, page_token(found.next))


def list_posts(app: App, request: PostRequest) -> PostPage:
    """Return one page of posts."""
    with app.reading() as database:
        return _post_page(database, request)


def _post_page(database: Database, request: PostRequest) -> PostPage:
    found = posts.list_posts(database, request)
    return PostPage([listed_post(row) for row in found.items], found.total, page_token(found.next))


class PostAuthors(Struct, frozen=True):
    """The authors of posts, and of the posts that they answer or repeat, by DID."""

    handles: Annotated[dict[str, str], means("the handle of each author, if it is known")]
    followed: Annotated[frozenset[str], means("the DIDs that are followed")]


def post_authors(app: App, addresses: Iterable[str | None]) -> PostAuthors:
    """Return the authors of the posts at these addresses."""
    with app.reading() as database:
        return _authors(database, addresses)


def _authors(database: Database, addresses: Iterable[str | None]) -> PostAuthors:
    return PostAuthors(*posts.find_handles(database, {author_of(one) for one in addresses if one is not None}))


def list_posts_with_authors(app: App, request: PostRequest) -> tuple[PostPage, PostAuthors]:
    """Return one page of posts, and their authors."""
    with app.reading() as database:
        page = _post_page(database, request)
        return page, _authors(database, (uri for one in page.items for uri in _near(one)))


def _near(post: ListedPost) -> tuple[str | None, ...]:
    return (post.uri, post.reply_to, post.quotes, post.repeats)


def author_of(address: str) -> str:
    """Return the DID in the address of a post: at://DID/collection/key."""
    return address.removeprefix("at://").partition("/")[0]


def _list(app: App, parents: ParentKind, request: ListRequest) -> tuple[list[ListedParent], int, str | None]:
    with app.reading() as database:
        if request.project:
            request = replace(request, project_id=match_project(database, request.project).id)
        found = list_parents(database, parents, request)
    return found.items, found.total, page_token(found.next)


Shape = TypeVar("Shape", bound=Struct)


def listed_parent(shape: type[Shape], row: ListedParent, kind: Kind, **others: Any) -> Shape:
    """Return a stored issue or merge request as an item of an answer, with more fields."""
    return copy_fields(
        shape,
        row,
        reference=f"{row.project}{sign_of(kind, row.references_short)}{row.iid}",
        author=row.author_username,
        milestone=row.milestone_title,
        **row.talk._asdict(),
        **({"status": row.status_name} if kind == "issue" else {}),
        **others,
    )


def topic_answer(shape: type[Shape], row: TopicRow, **others: Any) -> Shape:
    """Return a stored topic as an item of an answer, with more fields."""
    return copy_fields(shape, row, reference=f"{row.project}#{row.iid}", answered=row.is_answered, **others)


def listed_post(row: PostRow) -> ListedPost:
    """Return a stored post as an item of an answer."""
    return copy_fields(
        ListedPost,
        row,
        langs=_lines(row.langs),
        alt_text=_lines(row.alt_text),
        labels=_lines(row.labels),
        tags=_lines(row.tags),
        reply_to=row.reply_parent,
        quotes=row.quoted_uri,
        repeats=row.subject_uri,
        listed_at=row.sort_at,
        web_url=row.url,
    )


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


_HOUR_MS = 3_600_000


class FileRename(Struct, frozen=True):
    """A merge request that renamed the file."""

    old_path: Annotated[str, means("a name of the file")]
    new_path: Annotated[str, means("its new name, oldest rename first")]
    reference: Annotated[str, means("the merge request that renames it, such as group/project!12")]
    state: Annotated[str, means("the state of that merge request")]
    at: Annotated[Instant, means("when it was merged, or last updated")]


class FileEdit(Struct, frozen=True):
    """What a merge request does to the file."""

    change: Annotated[str, means("what it does to the file: new, renamed, deleted or modified")]
    old_path: Annotated[str, means("the file's path before")]
    new_path: Annotated[str, means("its path after")]


class FileChange(Struct, frozen=True, kw_only=True):
    """A merge request that changes the file."""

    reference: Annotated[str, means("a merge request that changes the file, such as group/project!12")]
    iid: Annotated[int, means("its number in the project")]
    title: Annotated[str, means("its title", untrusted=True)]
    state: Annotated[str, means("its state")]
    author: Annotated[str | None, means("who wrote it")]
    updated_at: Annotated[Instant, means("when it was last updated")]
    merged_at: Annotated[Instant | None, means("when it was merged, or null")]
    web_url: Annotated[str | None, means("its address")]
    changes: list[FileEdit]


class FileDiscussion(Struct, frozen=True, kw_only=True):
    """A review discussion on a line of the file."""

    reference: Annotated[str, means("the merge request it belongs to")]
    id: Annotated[str, means("id on the server")]
    author: Annotated[str | None, means("who wrote its first note")]
    body: Annotated[str, means("its Markdown source", untrusted=True)]
    created_at: Annotated[Instant, means("when it was written")]
    path: Annotated[str, means("the file's path there")]
    line: Annotated[int | None, means("the line after the change, or before it, or null")]
    resolvable: Annotated[bool, means("whether the discussion can be resolved")]
    resolved: Annotated[bool | None, means("whether it is, or null if that is unknown")]
    notes: Annotated[int, means("number of user notes")]


class FileStory(Struct, frozen=True, kw_only=True):
    """The answer of `lore file-history`."""

    path: Annotated[str, means("the file")]
    project: Annotated[str, means("the project's path")]
    names: Annotated[tuple[str, ...], means("all names of the file, oldest first")]
    names_cut: Annotated[bool, means("whether there are more names than were followed")]
    lineage: Annotated[str, means("the names on one line, with an arrow for each rename")]
    renames: list[FileRename]
    items: list[FileChange]
    total: Annotated[int, means("number of merge requests that changed the file")]
    next: Annotated[None, means("null: raise --limit for more")] = None
    discussions: list[FileDiscussion]
    discussions_total: Annotated[int, means("how many discussions there are in all; 0 without --discussions")]


class FileRequest(Struct, frozen=True, kw_only=True):
    """Which file, in which project, and whether renames are followed and discussions included."""

    path: str
    project: str | None = None
    follow: bool = True
    merged: bool = False
    discussions: bool = False
    limit: int = 20


def file_history(app: App, request: FileRequest) -> FileStory:
    """Return the merge requests that changed a file, newest first."""
    from tidelore.store.reading.file_history import FileQuestion, describe_lineage, read_file_history

    with app.reading() as database:
        question = copy_fields(FileQuestion, request, default=app.config.default_project)
        history = read_file_history(database, question)
    project = history.file.project
    numbered = project + sign_of("mr", next((entry.reference for entry in history.entries), None))
    return FileStory(
        path=history.file.path,
        project=project,
        names=history.lineage.names,
        names_cut=history.lineage.cut,
        lineage=describe_lineage(history.lineage),
        renames=[_rename(rename, numbered) for rename in history.lineage.renames],
        items=[_change(entry, numbered) for entry in history.entries],
        total=history.total,
        discussions=[_discussion(thread, numbered) for thread in history.threads],
        discussions_total=history.threads_total,
    )


def _rename(rename: Rename, numbered: str) -> FileRename:
    reference = f"{numbered}{rename.iid}"
    return FileRename(rename.old_path, rename.new_path, reference, rename.state, instant(rename.at))


def _change(entry: HistoryEntry, numbered: str) -> FileChange:
    edits = [FileEdit(touch.kind, touch.old_path, touch.new_path) for touch in entry.touches]
    return copy_fields(FileChange, entry, reference=entry.reference or f"{numbered}{entry.iid}", changes=edits)


def _discussion(thread: FileThread, numbered: str) -> FileDiscussion:
    flags = {
        "resolvable": bool(thread.resolvable),
        "resolved": None if thread.resolved is None else bool(thread.resolved),
    }
    return copy_fields(FileDiscussion, thread, reference=f"{numbered}{thread.iid}", **flags)


class LinkSharer(Struct, frozen=True):
    """An account that shared a link."""

    handle: Annotated[str | None, means("an account that shared it, first one first, or null if unknown")]
    did: Annotated[str, means("the DID")]
    shared_at: Annotated[Instant, means("when first in the window")]


class SharedLink(Struct, frozen=True, kw_only=True):
    """A link and who shared it."""

    url: Annotated[str, means("the link, normalised")]
    title: Annotated[str | None, means("the title on its card, or null", untrusted=True)]
    description: Annotated[str | None, means("the description on its card, or null", untrusted=True)]
    thumb: Annotated[str | None, means("the picture on its card, or null")]
    shares: Annotated[int, means("number of accounts that shared it")]
    posts: Annotated[int, means("number of posts")]
    first_shared_at: Annotated[Instant, means("when it was shared first in the window")]
    last_shared_at: Annotated[Instant, means("when it was shared last")]
    sharers: list[LinkSharer]


class TrendingLinks(Struct, frozen=True, kw_only=True):
    """The answer of `lore trending`."""

    since: Annotated[Instant, means("the beginning of the window")]
    items: list[SharedLink]
    total: Annotated[int, means("how many links there are here")]
    next: Annotated[None, means("null")] = None


def trending_links(app: App, hours: float, limit: int = 50, min_shares: int = 1, part: str = "") -> TrendingLinks:
    """Return the links that most accounts shared in the last hours, most shared first; with `part` in their address."""
    since = max(app.clock.now_ms() - round(hours * _HOUR_MS), 0)
    with app.reading() as database:
        found = posts.trending(database, since, limit, min_shares, part.strip())
    items = [
        copy_fields(SharedLink, trend, sharers=[copy_fields(LinkSharer, sharer) for sharer in trend.sharers])
        for trend in found
    ]
    return TrendingLinks(since=instant(since), items=items, total=len(items))
