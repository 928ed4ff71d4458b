"""Who may ask the dashboard: only its own page, on this machine, with this start's token."""

from collections.abc import Iterator

import pytest
from shown import ROUTES, TOKEN, client, with_token
from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client(tmp_path_factory.mktemp("empty")) as made:
        yield made


@pytest.mark.parametrize("path", ROUTES)
def test_without_the_token_nothing_of_the_record_is_told(guest: TestClient, path: str) -> None:
    wrong = ("", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}")
    for given in ({}, *({"Authorization": one} for one in wrong)):
        answer = guest.get(path, headers=given)
        assert answer.status_code == 401 and list(answer.json()) == ["error"]


def test_a_token_in_the_address_or_a_cookie_is_none(guest: TestClient) -> None:
    assert guest.get(f"/api/keys?token={TOKEN}").status_code == 401
    assert guest.get("/api/keys", headers={"Cookie": f"token={TOKEN}"}).status_code == 401


def test_two_tokens_are_none(guest: TestClient) -> None:
    both = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
    assert guest.get("/api/keys", headers=both).status_code == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example:80", "", "0.0.0.0"]
)
def test_a_forged_host_is_refused_even_with_the_token(guest: TestClient, host: str) -> None:
    for path in ("/", "/page/page.js", *ROUTES):
        assert guest.get(path, headers=with_token({"Host": host})).status_code == 403


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001", ""],
)
def test_a_forged_origin_is_refused_even_with_the_token(guest: TestClient, origin: str) -> None:
    for path in ROUTES:
        answer = guest.get(path, headers=with_token({"Origin": origin}))
        assert answer.status_code == 403, path


def test_its_own_names_and_its_own_origin_are_not_refused(guest: TestClient) -> None:
    for host in ("127.0.0.1:8000", "localhost:9000", "[::1]:8000", "localhost"):
        own = {"Host": host, "Origin": f"http://{host}"}
        assert guest.get("/api/keys", headers=with_token(own)).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(guest: TestClient, method: str) -> None:
    assert guest.request(method, "/api/keys", headers=with_token({})).status_code == 405


def test_the_page_may_ask_nobody_else_and_be_shown_nowhere_else(guest: TestClient) -> None:
    for path in ("/", "/page/page.js", "/api/keys"):
        headers = guest.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers


def test_the_files_of_the_page_name_no_other_host(guest: TestClient) -> None:
    page = guest.get("/").text
    for name in ("page.js", "page.css", "wire.js", "icon.svg"):
        page += guest.get(f"/page/{name}").text
    assert "https:" not in page and page.count("http://") == page.count("http://www.w3.org/")


@pytest.mark.parametrize("name", ["../server.py", "%2e%2e/server.py", "..%2fserver.py", "x.js"])
def test_only_files_of_the_page_are_served(guest: TestClient, name: str) -> None:
    assert guest.get(f"/page/{name}").status_code == 404
