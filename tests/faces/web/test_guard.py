"""Who may read and act: the Host, the Origin, the access token, the CSRF token, and the headers of every answer."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.faces.web.copies import PATH, client_of
from tests.faces.web.reading import HOST, read

from tidelore.app.wiring import App
from tidelore.core.errors import UserError
from tidelore.web.guard import make_access

REFRESH = f"/p/{PATH}/issues/1/refresh"
TOKEN = "tide-and-lore-0123456789"


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8765",
        "127.0.0.1",
        "127.0.0.1:80",
        "127.0.0.1.evil.example:8765",
        "",
        "[::1",
        "a@b",
    ],
)
def test_a_request_for_another_host_name_is_refused(client: TestClient, host: str) -> None:
    response = client.get("/", headers={"host": host})
    assert response.status_code == 421
    assert "crane" not in response.text


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"])
def test_a_request_for_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8765"])
def test_a_request_that_another_site_makes_is_refused(client: TestClient, origin: str) -> None:
    assert client.get("/", headers={"origin": origin}).status_code == 403
    assert client.post(REFRESH, headers={"origin": origin}).status_code == 403


def test_a_refusal_is_a_page_in_a_browser_and_a_line_elsewhere(client: TestClient) -> None:
    foreign = {"host": "evil.example"}
    page = client.get("/", headers=foreign | {"accept": "text/html"})
    assert "width=device-width" in page.text
    assert "Open the address that lore serve printed." in read(page.text).text
    line = client.get("/", headers=foreign | {"accept": "*/*"}).text
    assert line == "This server does not answer for that host name. Open the address that lore serve printed.\n"


def test_a_link_of_another_site_may_lead_here_but_nothing_may_be_embedded_there(client: TestClient) -> None:
    def status(site: str, mode: str) -> int:
        return client.get("/", headers={"sec-fetch-site": site, "sec-fetch-mode": mode}).status_code

    assert status("cross-site", "navigate") == 200
    assert status("same-origin", "cors") == 200
    assert status("cross-site", "no-cors") == 403
    assert status("same-site", "cors") == 403
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.post(REFRESH, headers=cross).status_code == 403


@pytest.mark.parametrize("address", ["/", "/issues", "/unknown", "/static/lore.js", "/static/style.css", "/search?q=x"])
def test_every_answer_forbids_what_does_not_come_from_this_server(client: TestClient, address: str) -> None:
    headers = client.get(address).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def csrf_of(client: TestClient) -> str:
    html = client.get(f"/p/{PATH}/issues/1").text
    return html.partition('name="csrf" value="')[2].partition('"')[0]


def test_a_form_without_the_token_of_its_session_is_refused(app: App, client: TestClient) -> None:
    token = csrf_of(client)
    assert len(token) == 64
    for data in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"other": token}):
        response = client.post(REFRESH, data=data)
        assert response.status_code == 400
        assert "The form has expired" in response.text
    stranger = TestClient(client.app, base_url=HOST, headers={"accept": "text/html"})
    assert "The form has expired" in stranger.post(REFRESH, data={"csrf": token}).text
    assert "The form is too long" in client.post(REFRESH, content=b"csrf=" + b"x" * 70_000).text
    # The right token gets as far as the configuration, which has no host.
    assert "The form has expired" not in client.post(REFRESH, data={"csrf": token}).text


def test_the_session_cookie_is_not_readable_by_scripts_and_not_sent_across_sites(client: TestClient) -> None:
    cookie = client.get("/issues").headers["set-cookie"]
    assert cookie.startswith("lore_8765=")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "set-cookie" not in client.get("/issues").headers


def test_an_address_that_others_reach_needs_a_token() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        with pytest.raises(UserError, match="access token"):
            make_access(host, 8765, None)
        assert make_access(host, 8765, TOKEN).token == TOKEN


def test_with_a_token_only_its_bearer_reads_and_the_address_does_not_keep_it(app: App) -> None:
    client = client_of(app, make_access("127.0.0.1", 8765, TOKEN))
    for address in ("/", "/issues", "/static/lore.js", "/status/live", "/?token=wrong"):
        assert client.get(address).status_code == 401, address
    assert client.post(REFRESH, data={"csrf": "x"}).status_code == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/issues", headers=bearer).status_code == 200
    entered = client.get(f"/issues?state=opened&token={TOKEN}")
    assert entered.status_code == 200
    assert TOKEN not in str(entered.url)
    assert entered.url.query == b"state=opened"
    assert TOKEN not in str(dict(client.cookies)), "the cookie is derived from the token"
    assert client.get("/").status_code == 200


def test_the_redirect_that_drops_the_token_stays_on_this_server(app: App) -> None:
    client = client_of(app, make_access("127.0.0.1", 8765, TOKEN))
    response = client.get(f"{HOST}//evil.example/?token={TOKEN}", follow_redirects=False)
    assert response.headers["location"] == "/evil.example/"


def test_a_wildcard_address_answers_for_addresses_and_not_for_names(app: App) -> None:
    client = client_of(app, make_access("0.0.0.0", 8765, TOKEN))
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/", headers={"host": "192.168.1.5:8765", **bearer}).status_code == 200
    assert client.get("/", headers={"host": "evil.example:8765", **bearer}).status_code == 421


def test_pages_load_scripts_and_styles_of_this_server_only(client: TestClient) -> None:
    html = client.get("/search").text
    assert "<script>" not in html
    assert "style=" not in html
    assert read(html).dangers == []


def test_an_address_that_is_too_long_is_refused_and_the_longest_one_keeps_pages_small(client: TestClient) -> None:
    assert client.get("/search", params={"q": "x" * 5000}).status_code == 414
    response = client.get("/search", params={"q": "x" * 4000})
    assert response.status_code == 200
    assert len(response.content) < 150_000
