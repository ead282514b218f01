"""The reading endpoints: the AppView's feeds and profiles, the PDS's records, the PLC directory's documents.

Owns the parameters of each method and its answers to bad ones. Refuses to change anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidelore_world.bluesky.cursors import read_cursor, write_cursor
from tidelore_world.bluesky.failure import XrpcFailure, invalid
from tidelore_world.bluesky.feeds import cut_page, drop_torn_threads, filter_named
from tidelore_world.bluesky.network import Network
from tidelore_world.bluesky.records import FOLLOW, LIST, LIST_ITEM, STARTER_PACK, Account, Record
from tidelore_world.bluesky.settings import BlueskySettings
from tidelore_world.bluesky.views import Views
from tidelore_world.wire import Request, Response, json_response

_REFUSALS = {
    401: ("AuthenticationRequired", "Authentication Required"),
    403: ("Forbidden", "Forbidden"),
    404: ("NotFound", "Not Found"),
    410: ("Gone", "Gone"),
}
_HIDDEN = {
    "deactivated": ("AccountDeactivated", "Account is deactivated"),
    "suspended": ("AccountTakedown", "Account has been suspended"),
    "takendown": ("AccountTakedown", "Account has been suspended"),
}
"""What the AppView says of accounts it does not show; of a deleted one, that there is none."""
_REPOSITORY = {"deactivated": "Deactivated", "suspended": "Suspended", "takendown": "Takendown"}
_MOST_PROFILES = 25
_MOST_POSTS = 25


class Xrpc:
    """Handlers for `/xrpc/<method>` and DID documents."""

    def __init__(self, network: Network, settings: BlueskySettings) -> None:
        self._network = network
        self._settings = settings
        self._views = Views(network)
        self.methods: Mapping[str, Callable[[Request], Response]] = {
            "app.bsky.feed.getAuthorFeed": self._author_feed,
            "app.bsky.feed.getPosts": self._posts,
            "app.bsky.actor.getProfile": self._profile,
            "app.bsky.actor.getProfiles": self._profiles,
            "app.bsky.graph.getFollows": self._follows,
            "app.bsky.graph.getList": self._list,
            "app.bsky.graph.getStarterPack": self._starter_pack,
            "com.atproto.identity.resolveHandle": self._resolve_handle,
            "com.atproto.repo.listRecords": self._list_records,
            "com.atproto.repo.getRecord": self._get_record,
            "com.atproto.sync.getRepoStatus": self._repo_status,
        }

    def did_document(self, did: str, origin: str) -> Response:
        """The document of an account; its PDS is this very origin."""
        account = self._network.accounts.get(did)
        if account is None:
            return json_response({"message": f"DID not registered: {did}"}, 404)
        document = {
            "@context": ["https://www.w3.org/ns/did/v1"],
            "id": did,
            "alsoKnownAs": [f"at://{account.handle}"],
            "verificationMethod": [],
            "service": [
                {
                    "id": "#atproto_pds",
                    "type": "AtprotoPersonalDataServer",
                    "serviceEndpoint": origin,
                }
            ],
        }
        return json_response(document, headers={"content-type": "application/did+ld+json"})

    def _author_feed(self, request: Request) -> Response:
        limit = _limit(request)
        name = request.first("filter") or "posts_with_replies"
        keep = filter_named(name)
        if keep is None:
            raise invalid(f"Error: filter must be a known value, got {name}")
        account = self._shown_account(_required(request, "actor"), "Profile not found")
        cursor = request.first("cursor")
        try:
            page = cut_page(account, self._settings, keep, limit, cursor)
        except ValueError as error:
            raise XrpcFailure(500, "InternalServerError", "Internal Server Error") from error
        records = drop_torn_threads(page.items) if name == "posts_and_author_threads" else page.items
        shown = [self._views.feed_item(record, request.origin) for record in records]
        items = [item for item in shown if item is not None]
        if cursor is None and request.first("includePins") == "true":
            items = self._with_pin(account, items, request.origin)
        return json_response({"feed": items} | _cursor(page.cursor))

    def _with_pin(self, account: Account, items: list[dict[str, Any]], origin: str) -> list[dict[str, Any]]:
        """The pinned post first; it leaves its own place if that is on the same page."""
        pinned = None if account.pinned_uri is None else self._views.pinned_item(account.pinned_uri, origin)
        if pinned is None:
            return items
        return [pinned, *(item for item in items if item["post"]["uri"] != account.pinned_uri)]

    def _posts(self, request: Request) -> Response:
        uris = request.query.get("uris", [])
        if not 1 <= len(uris) <= _MOST_POSTS:
            raise invalid(f"Error: uris must have 1 to {_MOST_POSTS} elements")
        try:
            found = [self._network.visible_post(uri) for uri in dict.fromkeys(uris)]
        except ValueError as error:
            raise invalid(f"Error: {error}") from error
        return json_response({"posts": [self._views.post(one, request.origin) for one in found if one is not None]})

    def _profile(self, request: Request) -> Response:
        account = self._shown_account(_required(request, "actor"), "Profile not found")
        return json_response(self._views.profile(account, request.origin))

    def _profiles(self, request: Request) -> Response:
        actors = request.query.get("actors", [])
        if not 1 <= len(actors) <= _MOST_PROFILES:
            raise invalid(f"Error: actors must have 1 to {_MOST_PROFILES} elements")
        found = (self._network.find(actor) for actor in actors)
        known = [account for account in found if account is not None and account.did not in self._settings.unlisted]
        active = [account for account in known if account.active]
        return json_response({"profiles": [self._views.profile(one, request.origin) for one in active]})

    def _follows(self, request: Request) -> Response:
        limit, origin = _limit(request), request.origin
        account = self._shown_account(_required(request, "actor"), "Actor not found")
        records = sorted(account.shelf(FOLLOW).rows(), key=lambda record: record.place)
        end, cursor = len(records), request.first("cursor")
        if cursor is not None:
            try:
                end = read_cursor("millis__cid", cursor, [record.place for record in records])
            except ValueError as error:
                raise XrpcFailure(500, "InternalServerError", "Internal Server Error") from error
        page = records[max(0, end - limit) : end][::-1]
        people = (self._network.accounts[record.value["subject"]] for record in page)
        return json_response(
            {
                "subject": self._views.author(account, origin),
                "follows": [self._views.author(one, origin) for one in people if one.active],
            }
            | _cursor(write_cursor("millis__cid", page[-1].place) if page else None)
        )

    def _list(self, request: Request) -> Response:
        record = self._record_of(request, "list", LIST, "List not found")
        rows = self._network.accounts[record.did].shelf(LIST_ITEM).rows()
        items = [row for row in rows if row.value["list"] == record.uri][::-1]
        cursor = request.first("cursor")
        page = [row for row in items if cursor is None or row.rkey < cursor][: _limit(request)]
        people = [(row, self._network.accounts[row.value["subject"]]) for row in page]
        shown = [
            {"uri": row.uri, "subject": self._views.author(one, request.origin)} for row, one in people if one.active
        ]
        more = _cursor(page[-1].rkey if page and page[-1] is not items[-1] else None)
        return json_response({"list": {"uri": record.uri, "name": record.value["name"]}, "items": shown} | more)

    def _starter_pack(self, request: Request) -> Response:
        record = self._record_of(request, "starterPack", STARTER_PACK, "Starter pack not found")
        shown = {"uri": record.uri, "cid": record.cid, "record": record.value, "list": {"uri": record.value["list"]}}
        return json_response({"starterPack": shown})

    def _record_of(self, request: Request, name: str, collection: str, complaint: str) -> Record:
        try:
            record = self._network.record(_required(request, name))
        except ValueError as error:
            raise invalid(f"Error: {error}") from error
        if record is None or record.collection != collection:
            raise invalid(complaint)
        return record

    def _resolve_handle(self, request: Request) -> Response:
        did = self._network.handles.get(_required(request, "handle").lower())
        if did is None:
            raise invalid("Unable to resolve handle")
        return json_response({"did": did})

    def _list_records(self, request: Request) -> Response:
        account = self._repository(request)
        collection, limit = _required(request, "collection"), _limit(request)
        ascending = request.first("reverse") == "true"
        rows = account.shelf(collection).page(limit, request.first("cursor"), ascending=ascending)
        records = [{"uri": row.uri, "cid": row.cid, "value": row.value} for row in rows]
        return json_response({"records": records} | _cursor(rows[-1].rkey if rows else None))

    def _get_record(self, request: Request) -> Response:
        account = self._repository(request)
        row = account.shelf(_required(request, "collection")).get(_required(request, "rkey"))
        if row is None:
            raise XrpcFailure(400, "RecordNotFound", "Could not locate record")
        return json_response({"uri": row.uri, "cid": row.cid, "value": row.value})

    def _shown_account(self, actor: str, complaint: str) -> Account:
        account = self._network.find(actor)
        if account is None or account.did in self._settings.unlisted:
            raise invalid(complaint)
        self._refuse(account)
        if account.status is not None:
            raise XrpcFailure(400, *_HIDDEN.get(account.status, ("InvalidRequest", complaint)))
        return account

    def _repository(self, request: Request) -> Account:
        repo = _required(request, "repo")
        account = self._network.find(repo)
        if account is None or account.status == "deleted":
            raise invalid(f"Could not find repo: {repo}")
        self._refuse(account)
        if account.status is not None:
            name = _REPOSITORY[account.status]
            raise XrpcFailure(400, f"Repo{name}", f"Repo is {account.status}: {account.did}")
        return account

    def _repo_status(self, request: Request) -> Response:
        did = _required(request, "did")
        account = self._network.find(did)
        if account is None or account.status == "deleted":
            raise XrpcFailure(400, "RepoNotFound", f"Could not find repo for DID: {did}")
        self._refuse(account)
        shown: dict[str, Any] = {"did": account.did, "active": account.active}
        return json_response(shown | ({} if account.status is None else {"status": account.status}))

    def _refuse(self, account: Account) -> None:
        status = self._settings.refused.get(account.did)
        if status is not None:
            raise XrpcFailure(status, *_REFUSALS[status])


def _required(request: Request, name: str) -> str:
    value = request.first(name)
    if not value:
        raise invalid(f"Error: Params must have the property {name!r}")
    return value


def _limit(request: Request) -> int:
    text = request.first("limit")
    if text is None:
        return 50
    if not (text.isascii() and text.isdigit()):
        raise invalid("Error: limit must be an integer")
    limit = int(text)
    if limit > 100:
        raise invalid("Error: limit can not be greater than 100")
    if limit < 1:
        raise invalid("Error: limit can not be less than 1")
    return limit


def _cursor(cursor: str | None) -> dict[str, str]:
    return {} if cursor is None else {"cursor": cursor}
