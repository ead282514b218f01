"""Everything the simulated GitHub holds: accounts and repositories, found by id or by name.

Owns identity: ids come from one increasing row (or, on request, from one row per kind, as on the real service), a
repository keeps its id when it is renamed, and an old name leads to the new one until somebody takes it. Refuses to
know requests.
"""

from __future__ import annotations

from tidelore_world.github.records import User, UserKind
from tidelore_world.github.repository import Repository

# Above 2**31, as the real service's ids are: a client that keeps them in 32 bits must not pass.
_FIRST_ID = 2_200_000_001
# The rows of these are still below 2**31 on the real service, so GraphQL's `databaseId` shows them.
_SMALL_IDS = {
    "repository": 900_000_000,
    "user": 20_000_000,
    "category": 40_000_000,
    "discussion": 9_000_000,
    "discussion_comment": 14_000_000,
}


class Hub:
    """Accounts and repositories."""

    def __init__(self) -> None:
        self.repositories: dict[int, Repository] = {}
        self._names: dict[str, int] = {}
        self._moved: dict[str, int] = {}
        self._users: dict[str, User] = {}
        self.separate_sequences = False
        """Number comments, review comments, reviews and discussion comments each by themselves, so that ids repeat."""
        self._next_ids: dict[str, int] = {}

    def new_id(self, kind: str = "") -> int:
        """The next id; later rows of a kind have higher ids."""
        row = kind if self.separate_sequences or kind in _SMALL_IDS else ""
        made = self._next_ids[row] = self._next_ids.get(row, _SMALL_IDS.get(kind, _FIRST_ID)) + 1
        return made

    def user(self, login: str, kind: UserKind | None = None, name: str | None = None) -> User:
        """The account with this login, made when it is new; `...[bot]` is a bot."""
        known = self._users.get(login.lower())
        if known is None:
            kind = kind or ("Bot" if login.endswith("[bot]") else "User")
            known = self._users[login.lower()] = User(self.new_id("user"), login, kind, name)
        return known

    def known_user(self, login: str) -> User | None:
        """The account with this login, if there is one."""
        return self._users.get(login.lower())

    def add(self, repo: Repository) -> None:
        """Register a new repository under its name."""
        key = repo.full_name.lower()
        if key in self._names:
            raise ValueError(f"{repo.full_name} exists already")
        self.repositories[repo.id] = repo
        self._names[key] = repo.id
        self._moved.pop(key, None)

    def rename(self, repo: Repository, full_name: str) -> None:
        """Give a repository a new name, or a new owner and name."""
        old = repo.full_name.lower()
        owner, _, name = full_name.partition("/")
        if full_name.lower() in self._names:
            raise ValueError(f"{full_name} exists already")
        del self._names[old]
        self._moved[old] = repo.id
        repo.owner, repo.name = self.user(owner), name
        self._names[full_name.lower()] = repo.id
        self._moved.pop(full_name.lower(), None)

    def named(self, full_name: str) -> Repository | None:
        """The repository that bears this name now, whatever the case."""
        found = self._names.get(full_name.lower())
        return None if found is None else self.repositories[found]

    def formerly(self, full_name: str) -> Repository | None:
        """The repository that bore this name before it was renamed."""
        found = self._moved.get(full_name.lower())
        return None if found is None else self.repositories[found]

    @staticmethod
    def may_read(repo: Repository, login: str) -> bool:
        """Whether an account may see a repository; to others it does not exist."""
        return repo.readers is None or login.lower() in repo.readers
