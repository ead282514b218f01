"""GitHub App installations: the claim, the token it buys, when that is renewed, and keys that are none."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from tests.support.manual_clock import ManualClock
from tests.unit.http.asking import ask, drop
from tests.unit.http.wire_server import Answer, ScriptedServer, answer

from tidelore.core.clock import format_instant
from tidelore.core.errors import ConfigError, CredentialsRejected, RemoteError, RemoteNotFound, UserError
from tidelore.http.client import HttpClient
from tidelore.sources.github.app_token import InstallationIdentity, claim, load_signer

KEY = "github.private_key_file"
NOW_S = 1_772_442_000
DATE = "Mon, 02 Mar 2026 09:00:00 GMT"


@pytest.fixture(scope="module")
def private() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def pem(key: Any, password: bytes | None = None) -> bytes:
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    content: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, sealed
    )
    return content


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def token(number: int, seconds: int = 3600) -> bytes:
    ends = format_instant((NOW_S + seconds) * 1000)
    return answer(201, json.dumps({"token": f"ghs_{number}", "expires_at": ends}).encode(), Date=DATE)


def with_identity(
    do: Callable[[InstallationIdentity, ManualClock], Awaitable[Any]], *script: Answer, now_s: int = NOW_S
) -> tuple[Any, ScriptedServer, ManualClock]:
    clock = ManualClock(now_s * 1000)

    async def job(http: HttpClient, _: ScriptedServer) -> Any:
        return await do(InstallationIdentity(http, 7, 8, lambda text: b"signed", clock), clock)

    result, server, _ = ask(*script, do=job, token=None)
    return result, server, clock


async def bearer_of(identity: InstallationIdentity) -> str:
    return (await identity.headers())["Authorization"]


def test_a_jwt_is_signed_with_the_app_key_and_valid_for_ten_minutes(tmp_path: Path, private: rsa.RSAPrivateKey) -> None:
    (tmp_path / "app.pem").write_bytes(pem(private))
    head, said, signature = claim(7, NOW_S, load_signer(str(tmp_path / "app.pem"), KEY)).split(".")
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT"}
    assert json.loads(decoded(said)) == {"iat": NOW_S - 60, "exp": NOW_S + 540, "iss": "7"}
    private.public_key().verify(
        decoded(signature), f"{head}.{said}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )  # raises unless it is the key's own


def test_a_jwt_is_exchanged_for_an_installation_token_that_is_reused() -> None:
    async def do(identity: InstallationIdentity, _: ManualClock) -> list[str]:
        return [await bearer_of(identity) for _ in range(3)]

    found, server, _ = with_identity(do, token(1), token(2))
    assert found == ["Bearer ghs_1"] * 3
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/app/installations/8/access_tokens")
    assert seen.headers["authorization"].count(".") == 2


def test_a_token_is_renewed_before_it_expires() -> None:
    async def do(identity: InstallationIdentity, clock: ManualClock) -> list[str]:
        found = [await bearer_of(identity)]
        for seconds in (3299, 2):
            clock.advance(seconds)
            found.append(await bearer_of(identity))
        return found

    found, _, _ = with_identity(do, token(1), token(2))
    assert found == ["Bearer ghs_1", "Bearer ghs_1", "Bearer ghs_2"]


@pytest.mark.parametrize("skew_s", [-86_400, 86_400])
def test_token_expiry_is_measured_on_the_servers_clock(skew_s: int) -> None:
    async def do(identity: InstallationIdentity, clock: ManualClock) -> list[str]:
        found = [await bearer_of(identity)]
        clock.advance(3000)
        found.append(await bearer_of(identity))
        clock.advance(1000)
        found.append(await bearer_of(identity))
        return found

    found, _, _ = with_identity(do, token(1), token(2), now_s=NOW_S + skew_s)
    assert found == ["Bearer ghs_1", "Bearer ghs_1", "Bearer ghs_2"]


def test_a_short_lived_token_is_used_for_half_its_lifetime() -> None:
    async def do(identity: InstallationIdentity, clock: ManualClock) -> list[str]:
        found = []
        for seconds in (0, 29, 2):
            clock.advance(seconds)
            found.append(await bearer_of(identity))
        return found

    found, _, _ = with_identity(do, token(1, 60), token(2, 60))
    assert found == ["Bearer ghs_1", "Bearer ghs_1", "Bearer ghs_2"]


def test_concurrent_requests_wait_for_one_token_exchange() -> None:
    async def do(identity: InstallationIdentity, _: ManualClock) -> list[str]:
        return await asyncio.gather(*(bearer_of(identity) for _ in range(10)))

    found, server, _ = with_identity(do, token(1), token(2))
    assert found == ["Bearer ghs_1"] * 10
    assert len(server.seen) == 1


def test_a_forgotten_token_is_requested_again() -> None:
    async def do(identity: InstallationIdentity, _: ManualClock) -> list[str]:
        first = await bearer_of(identity)
        identity.forget()
        return [first, await bearer_of(identity)]

    assert with_identity(do, token(1), token(2))[0] == ["Bearer ghs_1", "Bearer ghs_2"]


@pytest.mark.parametrize("step", [answer(502, b"{}"), drop], ids=["502", "dropped"])
def test_a_token_request_with_a_lost_response_is_retried(step: Answer) -> None:
    found, server, clock = with_identity(lambda identity, _: bearer_of(identity), step, step, token(1))
    assert found == "Bearer ghs_1"
    assert len(server.seen) == 3
    assert len(clock.slept) == 2


async def failure(identity: InstallationIdentity, _: ManualClock) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await identity.headers()
    return caught.value


def test_a_persistent_server_error_is_reported_as_such() -> None:
    error, server, _ = with_identity(failure, answer(500, b"{}"))
    assert (error.reason, error.retryable) == ("app_token", True)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("status", "kind", "named"),
    [(401, CredentialsRejected, "private_key_file"), (404, RemoteNotFound, "installation_id")],
)
def test_a_refused_token_request_names_the_config_keys_to_check(
    status: int, kind: type[RemoteError], named: str
) -> None:
    error, server, _ = with_identity(failure, answer(status, b"{}"))
    assert isinstance(error, kind)
    assert named in str(error.fix)
    assert len(server.seen) == 1


@pytest.mark.parametrize("body", [b"{}", b"no json", b'{"token": "ghs_1", "expires_at": "soon"}'])
def test_an_answer_without_a_token_is_refused_and_not_repeated(body: bytes) -> None:
    error, _, _ = with_identity(failure, answer(201, body))
    assert error.reason == "bad_shape"
    assert "ghs_1" not in error.message


def test_neither_token_nor_key_appears_in_a_repr() -> None:
    async def do(identity: InstallationIdentity, _: ManualClock) -> str:
        await identity.headers()
        return f"{identity!r} {vars(identity)['_http']!r}"

    assert "ghs_" not in with_identity(do, token(1))[0]


def test_a_missing_key_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as caught:
        load_signer(str(tmp_path / "none.pem"), KEY)
    assert caught.value.details["key"] == KEY
    assert caught.value.exit_code == 2


def test_a_folder_as_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        load_signer(str(tmp_path), KEY)


def test_a_key_path_with_tilde_is_expanded(
    tmp_path: Path, private: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "app.pem").write_bytes(pem(private))
    assert load_signer("~/app.pem", KEY)(b"text")


@pytest.mark.parametrize("kind", ["empty", "text", "half", "other", "sealed", "public"])
def test_an_invalid_key_file_is_refused_without_quoting_its_content(
    tmp_path: Path, private: rsa.RSAPrivateKey, kind: str
) -> None:
    whole = pem(private)
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    content = {
        "empty": b"",
        "text": b"hunter2-hunter2",
        "half": whole[: len(whole) // 2],
        "other": pem(ec.generate_private_key(ec.SECP256R1())),
        "sealed": pem(private, b"hunter2-hunter2"),
        "public": public,
    }[kind]
    path = tmp_path / "app.pem"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="contains no unencrypted RSA private key") as caught:
        load_signer(str(path), KEY)
    assert caught.value.details == {"key": KEY}
    assert caught.value.__cause__ is None
    assert "hunter2" not in f"{caught.value.message} {caught.value.fix}"


def test_a_missing_crypto_library_is_reported_with_the_extra_to_install(
    tmp_path: Path, private: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.pem").write_bytes(pem(private))
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError) as caught:
        load_signer(str(tmp_path / "app.pem"), KEY)
    assert caught.value.fix == "pip install 'tidelore[github-app]'"
