"""Who the browser belongs to: a signed cookie, and two users who need no password.

The cookie is `user.expiry.signature`, an HMAC-SHA256 with a secret that is kept beside the
database, so that a restarted server knows its users. A real application checks a password, or
leaves the login to an identity provider, and sets a cookie in the same way.
"""

import hmac
import secrets
import time
from hashlib import sha256
from pathlib import Path

from fastapi import HTTPException, Request, Response

USERS = ("ada", "grace")
COOKIE = "chat_session"
LASTS_S = 7 * 86_400


class Login:
    """Signs and checks cookies.

    Args:
        secret_file: is made, with a new secret, if it isn't there.
    """

    def __init__(self, secret_file: Path) -> None:
        self._secret = _secret_of(secret_file)

    def begin(self, user: str, response: Response, *, https: bool) -> None:
        """Set the cookie of a user.

        Raises:
            HTTPException: 403, there is no such user.
        """
        if user not in USERS:
            raise HTTPException(403, f"the users are {' and '.join(USERS)}")
        given = f"{user}.{int(time.time()) + LASTS_S}"
        response.set_cookie(
            COOKIE,
            f"{given}.{self._signature(given)}",
            max_age=LASTS_S,
            httponly=True,
            samesite="strict",
            secure=https,
        )

    def user(self, request: Request) -> str:
        """Return the user of a request.

        Raises:
            HTTPException: 401, no cookie, or one that is forged or over.
        """
        given, _, signature = request.cookies.get(COOKIE, "").rpartition(".")
        user, _, until = given.partition(".")
        genuine = hmac.compare_digest(self._signature(given).encode(), signature.encode())
        if not genuine or not until.isdecimal() or int(until) < time.time():
            raise HTTPException(401, "log in first")
        return user

    def _signature(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(), sha256).hexdigest()


def _secret_of(path: Path) -> bytes:
    """Read the secret; the first process makes it, readable by its user alone."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(secrets.token_bytes(32))
    return path.read_bytes()
