"""GraphQL of the simulated GitHub: what is asked for, what it costs, and how it fails.

docs/github-facts.md says which of the sources named here were read and which are memory.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.world.github_asking import REPO, ask, errors, get, new_forge, post_query, send

from tidelore_world.faults import SimulatedTimeout
from tidelore_world.github import GitHubForge
from tidelore_world.wire import Request
from tidelore_world.world import World

THREADS = """
query threads($owner: String!, $name: String!, $number: Int!, $first: Int!, $after: String) {
  rateLimit { cost limit remaining resetAt nodeCount }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      ...Pull
      reviewThreads(first: $first, after: $after) {
        totalCount
        pageInfo { hasNextPage endCursor }
        nodes {
          id isResolved isOutdated isCollapsed resolvedBy { login }
          path line startLine originalLine diffSide subjectType
          comments(first: 10) { nodes { id databaseId fullDatabaseId body author { login __typename } } }
        }
      }
    }
  }
}
fragment Pull on PullRequest { id number title state updatedAt }
"""
OWNER, NAME = REPO.split("/")
REPOSITORY = f'repository(owner: "{OWNER}", name: "{NAME}")'


@pytest.fixture
def world() -> World:
    return new_forge()[0]


@pytest.fixture
def forge(world: World) -> GitHubForge:
    forge: GitHubForge = world.github
    return forge


def threads(forge: GitHubForge, number: int, first: int = 10, after: str | None = None) -> Any:
    data = ask(forge, THREADS, owner=OWNER, name=NAME, number=number, first=first, after=after)
    return data["repository"]["pullRequest"]["reviewThreads"]


def test_review_threads_show_what_rest_does_not(world: World, forge: GitHubForge) -> None:
    """Source: the type `PullRequestReviewThread` of the public schema."""
    world.advance(0.75)
    number = forge.create_pull(REPO, "Round up", author="mira").number
    first = forge.review_comment(REPO, number, "Why?", "tobias", path="a.py", line=12, start_line=10)
    answer = forge.review_comment(REPO, number, "Because.", "ci[bot]", in_reply_to=first.id)
    forge.review_comment(REPO, number, path="b.py", subject="file")
    forge.resolve_thread(REPO, forge.thread_of(REPO, first.id).id, "mira")
    data = ask(forge, THREADS, owner=OWNER, name=NAME, number=number, first=10)
    pull = data["repository"]["pullRequest"]
    assert pull["id"] == get(forge, f"/repos/{REPO}/pulls/{number}")["node_id"]
    assert pull["updatedAt"] == world.clock.iso_s(), "whole seconds"
    one, two = pull["reviewThreads"]["nodes"]
    assert (one["isResolved"], one["isCollapsed"], one["resolvedBy"]) == (True, True, {"login": "mira"})
    assert (one["path"], one["startLine"], one["line"], one["diffSide"]) == ("a.py", 10, 12, "RIGHT")
    assert [row["fullDatabaseId"] for row in one["comments"]["nodes"]] == [str(first.id), str(answer.id)]
    assert one["comments"]["nodes"][1]["author"] == {"login": "ci", "__typename": "Bot"}
    assert (two["isResolved"], two["resolvedBy"], two["subjectType"], two["line"]) == (False, None, "FILE", None)
    forge.outdate_thread(REPO, forge.thread_of(REPO, first.id).id)
    one = threads(forge, number)["nodes"][0]
    assert (one["isOutdated"], one["line"], one["originalLine"]) == (True, None, 12)


def test_ids_beyond_32_bits_are_null_in_database_id_and_a_text_in_full_database_id(forge: GitHubForge) -> None:
    """Source: the schema: "`databaseId` will be removed because it does not support 64-bit signed integer
    identifiers"; github.com/Jamie-BitFlight/claude_skills/issues/3595. That it is null, not an error, is unverified.
    """
    number = forge.create_issue(REPO).number
    query = f"{{ {REPOSITORY} {{ databaseId issue(number: {number}) {{ databaseId fullDatabaseId }} }} }}"
    shown = ask(forge, query)["repository"]
    assert shown["issue"] == {"databaseId": None, "fullDatabaseId": str(forge.repository(REPO).thread(number).id)}
    assert shown["databaseId"] == forge.repository(REPO).id


def test_pages_lead_on_by_opaque_cursors(forge: GitHubForge) -> None:
    """Source: "Using pagination in the GraphQL API"; cursors are `cursor:v2:` and MessagePack in base64."""
    number = forge.create_pull(REPO).number
    made = [forge.review_comment(REPO, number, line=line).id for line in range(1, 6)]
    seen: list[str] = []
    after = None
    for _ in range(3):
        page = threads(forge, number, 2, after)
        assert page["totalCount"] == 5
        seen += [node["comments"]["nodes"][0]["fullDatabaseId"] for node in page["nodes"]]
        after = page["pageInfo"]["endCursor"]
        assert after.startswith("Y3Vyc29yOnYyOpL")
    assert seen == [str(row) for row in made]
    assert page["pageInfo"]["hasNextPage"] is False


def test_pull_requests_are_read_by_update_newest_first(world: World, forge: GitHubForge) -> None:
    """Source: `pullRequests(orderBy: IssueOrder)`; there is no `since`. The cursor keeps its place when rows move."""
    made = []
    for _ in range(5):
        world.advance(1)
        made.append(forge.create_pull(REPO).number)
    query = f"""query($after: String) {{ {REPOSITORY} {{
      pullRequests(first: 2, after: $after, orderBy: {{field: UPDATED_AT, direction: DESC}}) {{
        totalCount pageInfo {{ hasNextPage endCursor }} edges {{ cursor node {{ number }} }} }} }} }}"""
    page = ask(forge, query)["repository"]["pullRequests"]
    assert [edge["node"]["number"] for edge in page["edges"]] == [made[4], made[3]]
    assert page["edges"][-1]["cursor"] == page["pageInfo"]["endCursor"]
    world.advance(1)
    forge.comment(REPO, made[0])
    page = ask(forge, query, after=page["pageInfo"]["endCursor"])["repository"]["pullRequests"]
    assert [edge["node"]["number"] for edge in page["edges"]] == [made[2], made[1]]
    assert page["pageInfo"]["hasNextPage"] is False


def test_issues_are_filtered_by_since_which_is_inclusive(world: World, forge: GitHubForge) -> None:
    """Source: `IssueFilters.since`: "List issues that have been updated at or after the given date"."""
    forge.create_issue(REPO)
    world.advance(60)
    since, number = world.clock.iso_s(), forge.create_issue(REPO).number
    forge.create_pull(REPO)
    query = f'{{ {REPOSITORY} {{ issues(first: 9, filterBy: {{since: "{since}"}}) {{ nodes {{ number }} }} }} }}'
    assert ask(forge, query)["repository"]["issues"]["nodes"] == [{"number": number}]


def test_nodes_are_found_by_their_global_ids_and_a_missing_one_is_null_with_an_error(forge: GitHubForge) -> None:
    """Source: "Using global node IDs"; the message is quoted in github.com/actions/add-to-project/issues/168."""
    pull, issue = forge.create_pull(REPO), forge.create_issue(REPO)
    spoken, remark = forge.comment(REPO, issue.number), forge.review_comment(REPO, pull.number)
    review = forge.truth_reviews(REPO, pull.number)[0]
    discussion = forge.create_discussion(REPO)
    said = forge.comment_discussion(REPO, discussion.number)
    ids = [
        *(row["node_id"] for row in forge.truth_issues(REPO)),
        forge.truth_comments(REPO)[0]["node_id"],
        forge.truth_review_comments(REPO)[0]["node_id"],
        review["node_id"],
        forge.truth_threads(REPO, pull.number)[0]["id"],
        forge.truth_discussions(REPO)[0]["id"],
        forge.truth_discussions(REPO)[0]["comments"][0]["id"],
        "I_kwDOnothing",
    ]
    query = """query($ids: [ID!]!) { nodes(ids: $ids) { __typename id
      ... on Comment { body } ... on PullRequest { number } ... on Issue { number } } }"""
    data, (error,) = errors(forge, query, ids=ids)
    assert [node and node["__typename"] for node in data["nodes"]] == [
        "PullRequest",
        "Issue",
        "IssueComment",
        "PullRequestReviewComment",
        "PullRequestReview",
        "PullRequestReviewThread",
        "Discussion",
        "DiscussionComment",
        None,
    ]
    assert [node["id"] for node in data["nodes"][:-1]] == ids[:-1]
    assert (data["nodes"][2]["body"], data["nodes"][3]["body"]) == (spoken.body, remark.body)
    assert data["nodes"][7]["body"] == said.body
    assert (error["type"], error["path"]) == ("NOT_FOUND", ["nodes", 8])
    assert error["message"] == "Could not resolve to a node with the global id of 'I_kwDOnothing'"


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ('{ repository(owner: "no", name: "where") { id } }', ["repository"], "Could not resolve to a Repository"),
        (f"{{ {REPOSITORY} {{ pullRequest(number: 9) {{ id }} }} }}", ["repository", "pullRequest"], "number of 9."),
        (f"{{ r: {REPOSITORY} {{ i: issue(number: 9) {{ id }} }} }}", ["r", "i"], "Could not resolve to an Issue"),
        (f"{{ {REPOSITORY} {{ discussion(number: 9) {{ id }} }} }}", ["repository", "discussion"], "a Discussion"),
        ('{ node(id: "x") { id } }', ["node"], "global id of 'x'"),
    ],
)
def test_what_is_missing_is_null_with_not_found(forge: GitHubForge, query: str, path: list[str], message: str) -> None:
    """Source: recorded answers; the error has `type`, `path`, `locations` and `message`, the status is 200."""
    data, (error,) = errors(forge, query)
    assert (error["type"], error["path"]) == ("NOT_FOUND", path)
    assert message in error["message"]
    assert error["locations"][0]["line"] == 1
    for key in path:
        data = data[key]
    assert data is None


def test_a_renamed_repository_is_followed_and_a_hidden_one_is_not_found(forge: GitHubForge) -> None:
    """Source: `repository(followRenames: Boolean = true)`; private ones are NOT_FOUND, never FORBIDDEN."""
    number = forge.create_issue(REPO).number
    node_id = get(forge, f"/repos/{REPO}/issues/{number}")["node_id"]
    forge.rename_repo(REPO, "harborline/books")
    assert ask(forge, f"{{ {REPOSITORY} {{ nameWithOwner }} }}")["repository"]["nameWithOwner"] == "harborline/books"
    forge.make_private("harborline/books")
    assert errors(forge, f"{{ {REPOSITORY} {{ id }} }}")[1][0]["type"] == "NOT_FOUND"
    assert errors(forge, f'{{ node(id: "{node_id}") {{ id }} }}')[1][0]["type"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ("", "MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value"),
        ("(first: 101)", "EXCESSIVE_PAGINATION", "exceeds the `first` limit of 100 records."),
        ('(first: 1, after: "no cursor")', "INVALID_CURSOR_ARGUMENTS", "does not appear to be a valid cursor."),
    ],
)
def test_a_connection_without_a_proper_page_fails_its_field(
    forge: GitHubForge, arguments: str, kind: str, message: str
) -> None:
    """Source: "Node limit" in the documentation; the shapes are quoted in public tests and octokit/graphql.js's README.

    The error is one of the field, with a path; a connection that cannot be null takes the object above with it.
    """
    forge.create_pull(REPO)
    query = f"{{ {REPOSITORY} {{ name pullRequest(number: 1) {{ reviewThreads{arguments} {{ nodes {{ id }} }} }} }} }}"
    data, (error,) = errors(forge, query)
    assert data == {"repository": {"name": NAME, "pullRequest": None}}
    assert (error["type"], error["path"]) == (kind, ["repository", "pullRequest", "reviewThreads"])
    assert message in error["message"]


def test_a_count_alone_needs_no_page(forge: GitHubForge) -> None:
    """Source: seen in public queries such as `comments { totalCount }`."""
    forge.comment(REPO, forge.create_issue(REPO).number)
    query = f"{{ {REPOSITORY} {{ issue(number: 1) {{ comments {{ totalCount }} }} issues {{ totalCount }} }} }}"
    shown = ask(forge, query)["repository"]
    assert (shown["issue"]["comments"], shown["issues"]) == ({"totalCount": 1}, {"totalCount": 1})


def test_points_are_the_connections_divided_by_a_hundred(forge: GitHubForge) -> None:
    """Source: "Calculating a rate limit score before running the call": 1 + 100 + 5,000 requests are 51 points."""
    query = f"""{{ rateLimit {{ cost nodeCount remaining limit resetAt }} {REPOSITORY} {{
      pullRequests(first: 100) {{ nodes {{ reviewThreads(first: 50) {{ nodes {{ comments(first: 60) {{ nodes {{ id }} }}
      }} }} }} }} }} }}"""
    limit = ask(forge, query)["rateLimit"]
    assert (limit["cost"], limit["nodeCount"]) == (51, 100 + 100 * 50 + 100 * 50 * 60)
    assert (limit["limit"], limit["remaining"]) == (5000, 4949)
    assert limit["resetAt"].endswith("Z")
    assert ask(forge, "{ rateLimit { cost } }")["rateLimit"] == {"cost": 1}


def test_graphql_has_a_budget_apart_from_rest(forge: GitHubForge) -> None:
    """Source: `GET /rate_limit` shows `core` and `graphql`; answers carry `x-ratelimit-resource: graphql`."""
    response = post_query(forge, "{ viewer { login } }")
    assert response.headers["x-ratelimit-resource"] == "graphql"
    assert response.headers["x-ratelimit-remaining"] == "4999"
    resources = get(forge, "/rate_limit", "one")["resources"]
    assert (resources["graphql"]["used"], resources["core"]["used"]) == (1, 0)
    assert "etag" not in response.headers


@pytest.mark.parametrize("kind", ["RATE_LIMITED", "RATE_LIMIT"])
def test_an_exhausted_budget_is_an_error_with_status_200(world: World, forge: GitHubForge, kind: str) -> None:
    """Source: "If you exceed your primary rate limit, the response status will still be 200"; recorded type and
    message; `RATE_LIMIT` in github.com/yanyongyu/githubkit/pull/272.
    """
    forge.settings.graphql_limit, forge.settings.graphql_limited_type = 1, kind
    ask(forge, "{ viewer { login } }")
    response = post_query(forge, "{ viewer { login } }")
    assert (response.status, response.headers["x-ratelimit-remaining"]) == (200, "0")
    (error,) = json.loads(response.body)["errors"]
    assert error["type"] == kind
    assert error["message"].startswith("API rate limit already exceeded for user ID")
    assert "data" not in json.loads(response.body)
    world.advance(3601)
    ask(forge, "{ viewer { login } }")


def test_a_query_for_too_many_nodes_is_refused_whole(forge: GitHubForge) -> None:
    """Source: "Individual calls cannot request more than 500,000 total nodes";
    github.com/semantic-release/github/issues/911.
    """
    query = f"""{{ {REPOSITORY} {{ pullRequests(first: 100) {{ nodes {{ reviewThreads(first: 100) {{ nodes {{
      comments(first: 100) {{ nodes {{ id }} }} }} }} }} }} }} }}"""
    data, (error,) = errors(forge, query)
    assert data is None
    assert error["type"] == "MAX_NODE_LIMIT_EXCEEDED"
    assert "1,010,100 possible nodes" in error["message"]


def test_a_query_that_reads_too_much_is_answered_in_part(forge: GitHubForge) -> None:
    """Source: RESOURCE_LIMITS_EXCEEDED since 2025-09: github.com/github/docs/pull/40052; entries of lists are null
    (github.com/spiceai/docs/pull/2173); the error has a path
    (github.com/yoshi389111/github-profile-3d-contrib/issues/163).
    """
    for _ in range(4):
        forge.create_pull(REPO)
    query = f"{{ {REPOSITORY} {{ pullRequests(first: 10) {{ totalCount nodes {{ number }} }} }} }}"
    forge.settings.graphql_resources = 3
    data, (error,) = errors(forge, query)
    assert data["repository"]["pullRequests"]["nodes"] == [{"number": 1}, {"number": 2}, {"number": 3}, None]
    assert error["type"] == "RESOURCE_LIMITS_EXCEEDED"
    assert error["message"] == "Resource limits for this query exceeded."
    assert error["path"] == ["repository", "pullRequests", "nodes", 3]
    assert len(ask(forge, query.replace("10", "3"))["repository"]["pullRequests"]["nodes"]) == 3


@pytest.mark.parametrize("status", [502, 504])
def test_a_slow_query_times_out_and_costs_extra_points(forge: GitHubForge, status: int) -> None:
    """Source: "Timeouts": a request that takes more than 10 seconds is terminated, and costs additional points."""
    forge.settings.graphql_slow_nodes, forge.settings.graphql_slow_status = 50, status
    query = f"{{ {REPOSITORY} {{ pullRequests(first: 100) {{ nodes {{ id }} }} }} }}"
    response = post_query(forge, query)
    assert (response.status, json.loads(response.body)["data"]) == (status, None)
    assert b"Something went wrong while executing your query." in response.body
    assert response.headers["x-ratelimit-remaining"] == "4989"
    ask(forge, query.replace("100", "50"))


def test_a_token_without_rights_gets_null_with_forbidden(forge: GitHubForge) -> None:
    """Source: "Resource not accessible by personal access token" with type FORBIDDEN, as fine-grained tokens get it."""
    forge.create_pull(REPO)
    forge.settings.graphql_forbidden = {"PullRequest.reviewThreads", "PullRequest.closingIssuesReferences"}
    query = f"""{{ {REPOSITORY} {{ pullRequest(number: 1) {{ number
      closingIssuesReferences(first: 1) {{ nodes {{ id }} }} }} }} }}"""
    data, (error,) = errors(forge, query)
    assert data["repository"]["pullRequest"] == {"number": 1, "closingIssuesReferences": None}
    assert (error["type"], error["extensions"]) == ("FORBIDDEN", {"saml_failure": False})
    data, _ = errors(forge, THREADS, owner=OWNER, name=NAME, number=1, first=5)
    assert data["repository"]["pullRequest"] is None, "the threads cannot be null, so their pull request is"


def test_bad_and_missing_tokens_are_refused(forge: GitHubForge) -> None:
    """Source: "Authenticating with GraphQL": every call needs a token; REST can be read without."""
    forge.settings.bad_tokens.add("one")
    assert post_query(forge, "{ viewer { login } }").status == 401
    forge.settings.require_token = True
    assert post_query(forge, "{ viewer { login } }", token="").status == 401
    forge.settings.tokens["two"] = "mira"
    assert ask(forge, "{ viewer { login } }", token="two") == {"viewer": {"login": "mira"}}


@pytest.mark.parametrize(
    ("query", "message", "code"),
    [
        ("{ viewer { nope } }", "Field 'nope' doesn't exist on type 'User'", "undefinedField"),
        ('{ repository(owner: "o") { id } }', "missing required arguments: name", "missingRequiredArguments"),
        ("{ viewer(x: 1) { login } }", "doesn't accept argument 'x'", "argumentNotAccepted"),
        ("{ viewer }", "Field must have selections", "selectionMismatch"),
        ("{ ...F }", "Fragment F was used, but not defined", "useAndDefineFragment"),
        ("{ node(id: 1) { ... on Nothing { id } } }", "No such type Nothing", "undefinedType"),
    ],
)
def test_a_document_that_does_not_fit_the_schema_is_refused(
    forge: GitHubForge, query: str, message: str, code: str
) -> None:
    """Source: graphql-ruby's messages, which GitHub shows; status 200 and no `data`."""
    data, found = errors(forge, query)
    assert data is None
    assert message in found[0]["message"]
    assert found[0]["extensions"]["code"] == code


def test_documents_may_have_aliases_fragments_directives_and_objects(forge: GitHubForge) -> None:
    """Source: the GraphQL specification."""
    forge.create_issue(REPO, "One", "Text", labels=["bug"])
    query = f"""query($more: Boolean!) {{
      a: {REPOSITORY} {{ ...R }}
      b: {REPOSITORY} {{ ...R ... on Repository {{ name @skip(if: $more) nameWithOwner @include(if: $more) }} }}
    }}
    fragment R on Repository {{ issue(number: 1) {{ ...I }} issue(number: 1) {{ body }} }}
    fragment I on Issue {{ title labels(first: 5) {{ nodes {{ name }} }} }}"""
    data = ask(forge, query, more=True)
    issue = {"title": "One", "labels": {"nodes": [{"name": "bug"}]}, "body": "Text"}
    assert data == {"a": {"issue": issue}, "b": {"issue": issue, "nameWithOwner": REPO}}


def test_closing_issues_are_shown_in_both_directions(forge: GitHubForge) -> None:
    """Source: `closingIssuesReferences` and `closedByPullRequestsReferences` of the public schema."""
    one, two = forge.create_issue(REPO).number, forge.create_issue(REPO).number
    pull = forge.create_pull(REPO, body=f"Closes #{one}, and fixes #99.").number
    forge.link_issue(REPO, pull, two)
    query = f"""{{ {REPOSITORY} {{
      pullRequest(number: {pull}) {{ closingIssuesReferences(first: 10) {{ nodes {{ number }} }} }}
      issue(number: {two}) {{ closedByPullRequestsReferences(first: 10) {{ nodes {{ number }} }} }} }} }}"""
    shown = ask(forge, query)["repository"]
    numbers = [node["number"] for node in shown["pullRequest"]["closingIssuesReferences"]["nodes"]]
    assert numbers == [one, two] == forge.truth_closing_issues(REPO, pull)
    assert shown["issue"]["closedByPullRequestsReferences"]["nodes"] == [{"number": pull}]


def test_reviews_and_files_are_shown(forge: GitHubForge) -> None:
    """Source: `PullRequest.reviews`, `PullRequest.files` of the public schema; a pending review is its author's."""
    forge.settings.tokens |= {"one": "mira", "two": "tobias"}
    number = forge.create_pull(REPO, files=["a.py"]).number
    forge.review(REPO, number, "APPROVED", "Good.", "tobias")
    forge.review(REPO, number, "PENDING", "Hm.", "mira")
    query = f"""{{ {REPOSITORY} {{ pullRequest(number: {number}) {{
      reviews(first: 10) {{ nodes {{ state submittedAt body fullDatabaseId }} }}
      files(first: 10) {{ nodes {{ path changeType additions }} }} reviewDecision }} }} }}"""
    mine = ask(forge, query)["repository"]["pullRequest"]
    assert [(row["state"], row["submittedAt"] is None) for row in mine["reviews"]["nodes"]] == [
        ("APPROVED", False),
        ("PENDING", True),
    ]
    assert mine["files"]["nodes"] == [{"path": "a.py", "changeType": "MODIFIED", "additions": 12}]
    assert mine["reviewDecision"] == "APPROVED"
    theirs = ask(forge, query, token="two")["repository"]["pullRequest"]["reviews"]["nodes"]
    assert [row["state"] for row in theirs] == ["APPROVED"]


RESOLVE = """mutation($id: ID!) { resolveReviewThread(input: {threadId: $id, clientMutationId: "x"}) {
  clientMutationId thread { id isResolved resolvedBy { login } } } }"""


def test_a_review_thread_is_resolved_and_opened_again_by_mutations(world: World, forge: GitHubForge) -> None:
    """Source: `resolveReviewThread`, `unresolveReviewThread`; resolving twice is no error, and nothing moves."""
    forge.settings.tokens["one"] = "mira"
    number = forge.create_pull(REPO).number
    forge.review_comment(REPO, number)
    node_id = forge.truth_threads(REPO, number)[0]["id"]
    before = get(forge, f"/repos/{REPO}/pulls/{number}")
    world.advance(60)
    for _ in range(2):
        shown = ask(forge, RESOLVE, id=node_id)["resolveReviewThread"]
        assert shown["clientMutationId"] == "x"
        assert shown["thread"] == {"id": node_id, "isResolved": True, "resolvedBy": {"login": "mira"}}
    assert get(forge, f"/repos/{REPO}/pulls/{number}") == before
    ask(forge, RESOLVE.replace("resolveReviewThread", "unresolveReviewThread"), id=node_id)
    assert forge.truth_threads(REPO, number)[0]["isResolved"] is False
    assert errors(forge, RESOLVE, id="PRRT_no")[1][0]["type"] == "NOT_FOUND"


def test_a_reply_in_a_review_thread_is_a_review_comment(forge: GitHubForge) -> None:
    """Source: `addPullRequestReviewThreadReply`."""
    number = forge.create_pull(REPO).number
    first = forge.review_comment(REPO, number)
    node_id = forge.truth_threads(REPO, number)[0]["id"]
    query = """mutation($id: ID!, $body: String!) { addPullRequestReviewThreadReply(
      input: {pullRequestReviewThreadId: $id, body: $body}) {
        comment { fullDatabaseId body replyTo { fullDatabaseId } } } }"""
    made = ask(forge, query, id=node_id, body="Done.")["addPullRequestReviewThreadReply"]["comment"]
    assert made["replyTo"] == {"fullDatabaseId": str(first.id)}
    shown = forge.truth_review_comments(REPO, number)[-1]
    assert (str(shown["id"]), shown["in_reply_to_id"]) == (made["fullDatabaseId"], first.id)
    assert errors(forge, query, id=node_id, body=" ")[1][0]["type"] == "UNPROCESSABLE"


def test_a_mutation_may_take_effect_although_its_answer_is_lost(forge: GitHubForge) -> None:
    """Source: a POST that timed out may have succeeded, by GraphQL as by REST."""
    number = forge.create_pull(REPO).number
    forge.review_comment(REPO, number)
    forge.settings.lost_answers = 1
    with pytest.raises(SimulatedTimeout):
        post_query(forge, RESOLVE, id=forge.truth_threads(REPO, number)[0]["id"])
    assert forge.truth_threads(REPO, number)[0]["isResolved"] is True


def test_mutations_count_as_new_content(forge: GitHubForge) -> None:
    """Source: "Secondary rate limits": 80 content-generating requests a minute, GraphQL mutations included."""
    forge.settings.content_per_minute = 2
    number = forge.create_pull(REPO).number
    forge.review_comment(REPO, number)
    node_id = forge.truth_threads(REPO, number)[0]["id"]
    statuses = [post_query(forge, RESOLVE, id=node_id).status for _ in range(3)]
    assert statuses == [200, 200, 403]


def test_issues_are_commented_edited_and_closed_by_mutations(forge: GitHubForge) -> None:
    """Source: `addComment`, `updateIssueComment`, `closeIssue` of the public schema."""
    number = forge.create_issue(REPO).number
    subject = forge.truth_issues(REPO)[0]["node_id"]
    add = """mutation($id: ID!) { addComment(input: {subjectId: $id, body: "Hm."}) {
      commentEdge { node { id body } } subject { id } } }"""
    made = ask(forge, add, id=subject)["addComment"]
    assert made["subject"] == {"id": subject}
    edit = """mutation($id: ID!) { updateIssueComment(input: {id: $id, body: "Ah."}) {
      issueComment { body lastEditedAt } } }"""
    shown = ask(forge, edit, id=made["commentEdge"]["node"]["id"])["updateIssueComment"]["issueComment"]
    assert shown["body"] == "Ah."
    assert shown["lastEditedAt"] is not None
    close = "mutation($id: ID!) { closeIssue(input: {issueId: $id, stateReason: NOT_PLANNED}) { issue { state } } }"
    assert ask(forge, close, id=subject)["closeIssue"]["issue"] == {"state": "CLOSED"}
    assert get(forge, f"/repos/{REPO}/issues/{number}")["state_reason"] == "not_planned"


def test_a_duplicate_is_shown_as_such_on_request_only(forge: GitHubForge) -> None:
    """Source: `stateReason(enableDuplicate: Boolean = false)`; without it such an issue is NOT_PLANNED (unverified)."""
    forge.close(REPO, forge.create_issue(REPO).number, reason="duplicate")
    query = f"{{ {REPOSITORY} {{ issue(number: 1) {{ stateReason dup: stateReason(enableDuplicate: true) }} }} }}"
    assert ask(forge, query)["repository"]["issue"] == {"stateReason": "NOT_PLANNED", "dup": "DUPLICATE"}


@pytest.mark.parametrize(
    ("kind", "options"),
    [("malformed_item", {"shape": "null"}), ("invalid_timestamp", {}), ("truncated", {}), ("not_json", {})],
)
def test_faults_strike_graphql_answers(world: World, forge: GitHubForge, kind: Any, options: dict[str, Any]) -> None:
    forge.create_pull(REPO)
    query = f"{{ {REPOSITORY} {{ pullRequests(first: 5) {{ nodes {{ id createdAt }} }} }} }}"
    request = Request.build("POST", "/graphql", {}, json.dumps({"query": query}).encode())
    good = world.handle(request).body
    fault = world.faults.add(kind, "POST /graphql", **options)
    assert world.handle(request).body != good
    assert fault.fired == 1
    assert world.requests["POST /graphql"] == 2


def test_requests_that_are_not_a_query_are_refused(forge: GitHubForge) -> None:
    assert send(forge, "GET", "/graphql").status == 404
    assert send(forge, "POST", "/graphql", []).status == 400
    assert send(forge, "POST", "/graphql").status == 400
    assert b"A query attribute must be specified" in send(forge, "POST", "/graphql", {"query": 1}).body
