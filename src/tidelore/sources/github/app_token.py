"""Authenticates as a GitHub App installation: signs the App's JSON Web Token, requests tokens and renews them.

The private key and the tokens appear in no message and no repr. A token's lifetime is measured on the server's clock
and our monotonic one, so a wrong wall clock neither wastes a token nor uses an expired one.
"""

from __future__ import annotations

import asyncio
import importlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidelore.core.clock import Clock, parse_instant
from tidelore.core.errors import (
    ConfigError,
    CredentialsRejected,
    RemoteNotFound,
    RemotePermanent,
    RemoteTransient,
)
from tidelore.core.extras import extra_missing
from tidelore.http.client import HttpClient
from tidelore.http.limits import backoff_seconds
from tidelore.sources.github.payloads import InstallationToken

Sign = Callable[[bytes], bytes]

_BACKDATED_SECONDS = 60
"""How far a JWT is backdated, because GitHub refuses one issued in the future by its clock."""
_VALID_SECONDS = 540
"""How long a JWT is valid; GitHub allows at most ten minutes."""
_RENEW_SECONDS = 300.0
"""How long before its expiry a token is renewed, because a request in flight may take that long."""
_ATTEMPTS = 3


class InstallationIdentity:
    """Authenticates as one installation of a GitHub App."""

    def __init__(self, http: HttpClient, app_id: int, installation_id: int, sign: Sign, clock: Clock) -> None:
        self._http = http
        self._app_id = app_id
        self._installation_id = installation_id
        self._sign = sign
        self._clock = clock
        self._token: str | None = None
        self._renew_at = 0.0
        self._renewing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"InstallationIdentity({self._app_id}, {self._installation_id})"

    async def headers(self) -> Mapping[str, str]:
        """Return the installation's token as a header; concurrent callers wait for one renewal."""
        async with self._renewing:
            if self._token is None or self._clock.monotonic() >= self._renew_at:
                self._token = await self._bought()
            return _bearer(self._token)

    async def app_headers(self) -> Mapping[str, str]:
        """Return the App's JWT as a header."""
        return _bearer(claim(self._app_id, self._clock.now_ms() // 1000, self._sign))

    def forget(self) -> None:
        """Discard the token, so that the next request gets a new one."""
        self._token = None

    async def _bought(self) -> str:
        asked_at = self._clock.monotonic()
        body, server_at = await self._ask()
        try:
            found = msgspec.json.decode(body, type=InstallationToken)
            ends_at = parse_instant(found.expires_at)
        except (msgspec.DecodeError, ValueError):
            raise RemotePermanent(
                "unexpected response to the token request of the GitHub App", reason="bad_shape"
            ) from None
        lasts = (ends_at - (self._clock.now_ms() if server_at is None else server_at)) / 1000
        # A short-lived token is used for half its lifetime, so that it is not renewed before every request.
        self._renew_at = asked_at + max(lasts - _RENEW_SECONDS, lasts / 2)
        return found.token

    async def _ask(self) -> tuple[bytes, int | None]:
        """Request a token. Requesting it twice is harmless, so a request with an unknown outcome is retried."""
        address = f"app/installations/{self._installation_id}/access_tokens"
        attempt = 1
        while True:
            try:
                response = await self._http.write(address, headers=await self.app_headers(), route="app/token")
            except RemoteTransient as error:
                if attempt == _ATTEMPTS or error.reason == "rate_limit":
                    raise RemoteTransient(
                        "failed to get a token for the GitHub App",
                        status=error.status,
                        url=error.url,
                        reason="app_token",
                        retry_after_seconds=error.retry_after_seconds,
                        fix="run the command again; it continues where it stopped",
                    ) from None
                await self._clock.sleep(backoff_seconds(attempt, 1.0, 1.0))
                attempt += 1
                continue
            except RemoteNotFound as error:
                raise RemoteNotFound(
                    f"GitHub App {self._app_id} has no installation {self._installation_id}",
                    fix="correct app_id and installation_id of this host",
                    status=error.status,
                    url=error.url,
                ) from None
            except CredentialsRejected as error:
                raise CredentialsRejected(
                    f"GitHub rejected the credentials of App {self._app_id}",
                    fix="check app_id and private_key_file of this host, and that this machine's clock is right",
                    status=error.status,
                    url=error.url,
                    reason=error.reason,
                ) from None
            return response.body, response.server_at


def claim(app_id: int, now_s: int, sign: Sign) -> str:
    """Return a JSON Web Token signed with the App's key (RS256), which authenticates the App."""
    said = {"iat": now_s - _BACKDATED_SECONDS, "exp": now_s + _VALID_SECONDS, "iss": str(app_id)}
    text = b".".join(_base64(msgspec.json.encode(part)) for part in ({"alg": "RS256", "typ": "JWT"}, said))
    return f"{text.decode()}.{_base64(sign(text)).decode()}"


def load_signer(path: str, key: str) -> Sign:
    """Return a function that signs with the App's private key. `key` is the setting to name in an error."""
    try:
        pem = Path(path).expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(
            f"{key}: cannot read {path}: {why}",
            fix="set it to the private key file of the App and make it readable",
            key=key,
        ) from None
    serialization, padding, hashes, rsa = _cryptography()
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except Exception:  # noqa: BLE001 - no error may quote the contents of the file
        private = None
    if not isinstance(private, rsa.RSAPrivateKey):
        raise ConfigError(
            f"{key}: {path} contains no unencrypted RSA private key",
            fix="download the key again from the settings of the GitHub App (a .pem file)",
            key=key,
        )

    def sign(text: bytes) -> bytes:
        signature: bytes = private.sign(text, padding.PKCS1v15(), hashes.SHA256())
        return signature

    return sign


def _cryptography() -> tuple[Any, Any, Any, Any]:
    """Import and return the parts of `cryptography` that only a GitHub App needs."""
    room = "cryptography.hazmat.primitives"
    try:
        return (
            importlib.import_module(f"{room}.serialization"),
            importlib.import_module(f"{room}.asymmetric.padding"),
            importlib.import_module(f"{room}.hashes"),
            importlib.import_module(f"{room}.asymmetric.rsa"),
        )
    except ImportError:
        raise extra_missing("github-app", "signing in as a GitHub App") from None


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _base64(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")
