"""Settings of both services, read from the environment. Each service adds its own.

Names without the `HITHERTO_` prefix (`DATABASE_URL`, `OPENAI_API_KEY`, `EMBEDDING_MODEL`…) are
those that other software uses for the same purpose.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import SettingsConfigDict

from hitherto_shared.auth.claims import DEFAULT_TENANT_CLAIM
from hitherto_shared.auth.key_set import PUBLIC_KEY_ALGORITHMS
from hitherto_shared.auth.key_source import is_local
from hitherto_shared.auth.principal import DEFAULT_TENANT
from hitherto_shared.auth.web_tokens import ALGORITHMS, SECRET_ALGORITHM
from hitherto_shared.database.connect import RETRIEVAL_LOGINS, Pooler, Role, logging_in
from hitherto_shared.database.embedded import default_data_dir
from hitherto_shared.database.logins import passwords_for
from hitherto_shared.encryption.wrapping import (
    KeyWrapper,
    LocalWrapper,
    load_wrapper,
    read_kek,
    read_kek_file,
)
from hitherto_shared.model_settings import ModelSettings
from hitherto_shared.private_file import named_by
from hitherto_shared.rpc.edge_settings import EdgeSettings

PREFIX = "HITHERTO_"
_KEK = "HITHERTO_ENCRYPTION_KEY"

AuthMode = Literal["off", "api-key", "jwt"]
"""How callers authenticate."""
_LISTEN = re.compile(r"unix(-abstract)?:\S+|(\[[^\s\[\]]+\]|[^\s:\[\]]*):[0-9]{1,5}")


def _is_listen(address: str) -> str:
    if _LISTEN.fullmatch(address) is None:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:50051, or unix:PATH")
    return address


Listen = Annotated[str, AfterValidator(_is_listen)]
"""Where a service listens."""


def _is_place(path: Path) -> Path:
    """A path whose `~` is a home: services are started by more than shells, which replace it."""
    try:
        found = path.expanduser()
    except RuntimeError:
        raise ValueError(f"{path.parts[0]} is no user of this machine") from None
    try:
        found.lstat()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError("the path or a name in it is too long: choose another") from None
    return found


Place = Annotated[Path, AfterValidator(_is_place)]
"""A file or folder, which need not exist."""


class SharedSettings(ModelSettings, EdgeSettings):
    """Settings common to both services; docs/configuration.md describes every variable."""

    model_config = SettingsConfigDict(
        # An empty variable counts as unset, as in shells and compose files.
        env_prefix=PREFIX,
        env_ignore_empty=True,
        frozen=True,
        populate_by_name=True,
        extra="ignore",
        allow_inf_nan=False,
    )

    database_url: SecretStr | None = Field(None, validation_alias="DATABASE_URL")
    pooler: Pooler = "none"
    direct_database_url: SecretStr | None = None
    require_database_url: bool | None = None
    vector_schema: str | None = None
    """Read where connections are opened (`connect.VECTOR_SCHEMAS`), by commands too."""
    data_dir: Place = Field(default_factory=default_data_dir)
    secret_file: Place | None = None
    signing_key_file: Place | None = None
    hash_key_file: Place | None = None
    encryption_key: SecretStr | None = None
    encryption_key_file: Place | None = None
    key_wrapper: str | None = None
    user_keys_dir: Place | None = None
    migrate: bool = False
    retrieval_password: SecretStr | None = None
    extraction_password: SecretStr | None = None

    logins: ClassVar[tuple[Role, ...]] = ("hitherto_maintenance",)
    """The database logins of this process: a service has its own, commands use this one."""

    memory_enabled: bool = True
    extract_idle_minutes: float = Field(10.0, gt=0, le=525_600)
    auth: AuthMode | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_jwks: str | None = None
    jwt_secret_file: Place | None = None
    jwt_algorithms: str | None = None
    jwt_tenant_claim: str = DEFAULT_TENANT_CLAIM
    operator_tenant: str = DEFAULT_TENANT
    insecure_listen: bool = False
    tls_certificate_file: Place | None = None
    tls_key_file: Place | None = None
    tls_client_ca_file: Place | None = None
    reflection: bool = False
    drain_seconds: float = Field(25.0, gt=0)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["auto", "json", "text"] = "auto"
    metrics_listen: str | None = Field(None, pattern=r"^\S+:[0-9]{1,5}$")
    metrics_tenants: bool = False

    @field_validator("*", mode="before")
    @classmethod
    def _as_meant(cls, value: object) -> object:
        """A value without what the file that holds it adds: a line end, or white space.

        Quotes are told instead: whether they are removed differs from tool to tool, and a folder
        whose name begins with one would be made.
        """
        if not isinstance(value, str):
            return value
        value = value.strip()
        if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            raise ValueError("the quotes around it are part of the value: remove them")
        return value

    @property
    def embedded(self) -> bool:
        """True when the embedded Postgres is used."""
        return self.database_url is None

    def for_service(self, conninfo: str) -> str:
        """The connection string for this process's own login, whatever login it names."""
        reads = self.logins == RETRIEVAL_LOGINS
        password = self.retrieval_password if reads else self.extraction_password
        if password is None:
            return conninfo
        return logging_in(conninfo, self.logins[0], password.get_secret_value())

    def passwords(self, conninfo: str) -> Mapping[Role, str | None]:
        """The password of every login: one per service if it is set, else from `conninfo`."""
        retrieval, extraction = self.retrieval_password, self.extraction_password
        return passwords_for(
            conninfo,
            retrieval=retrieval.get_secret_value() if retrieval else None,
            extraction=extraction.get_secret_value() if extraction else None,
        )

    def direct(self, conninfo: str) -> str | None:
        """The connection string past the pooler, if there is one; `conninfo` without a pooler."""
        if self.pooler == "none":
            return conninfo
        url = self.direct_database_url
        return None if url is None else self.for_service(url.get_secret_value())

    def auth_mode(self, listen: str) -> AuthMode:
        """Whether callers must authenticate: off only for the embedded database on loopback.

        Raises:
            ValueError: Authentication was switched off for an address that others can reach.
        """
        if self.auth is None:
            return "off" if self.embedded and is_loopback(listen) else "api-key"
        if self.auth == "off" and not is_loopback(listen):
            raise ValueError(
                f"HITHERTO_AUTH=off is allowed on loopback only, and this service would listen "
                f"on {listen}: use HITHERTO_AUTH=api-key and `hitherto keys create`, or "
                "HITHERTO_AUTH=jwt"
            )
        return self.auth

    def operator(self, listen: str) -> str:
        """The tenant whose credentials may change the whole installation.

        Without authentication there is only one tenant, whatever the setting says.

        Raises:
            ValueError: Authentication was switched off for an address that others can reach.
        """
        return DEFAULT_TENANT if self.auth_mode(listen) == "off" else self.operator_tenant

    @model_validator(mode="after")
    def _tokens_are_described(self) -> Self:
        named = (self.jwt_issuer, self.jwt_audience, self.jwt_jwks, self.jwt_secret_file)
        if self.auth is None and any(value is not None for value in named):
            # Without this check, a forgotten setting would open the embedded database to everybody.
            raise ValueError(
                "HITHERTO_JWT_… is set but HITHERTO_AUTH is not: set HITHERTO_AUTH=jwt"
            )
        if self.auth == "jwt":
            self.token_algorithms()
        return self

    def token_algorithms(self) -> tuple[str, ...]:
        """The algorithms by which tokens may be signed.

        Raises:
            ValueError: A setting of HITHERTO_AUTH=jwt is missing or wrong; the text names it.
        """
        for variable, value in (
            ("HITHERTO_JWT_ISSUER", self.jwt_issuer),
            ("HITHERTO_JWT_AUDIENCE", self.jwt_audience),
            ("HITHERTO_JWT_TENANT_CLAIM", self.jwt_tenant_claim),
        ):
            if not (value or "").strip():
                raise ValueError(
                    f"HITHERTO_AUTH=jwt needs {variable}: without it, tokens issued for other "
                    "services would be accepted"
                )
        by_keys = PUBLIC_KEY_ALGORITHMS if (self.jwt_jwks or "").strip() else ()
        by_secret = () if self.jwt_secret_file is None else (SECRET_ALGORITHM,)
        possible = (*by_keys, *by_secret)
        if not possible:
            raise ValueError(
                "HITHERTO_AUTH=jwt needs HITHERTO_JWT_JWKS, the path or https address of the "
                "issuer's key set (or, for development, HITHERTO_JWT_SECRET_FILE)"
            )
        named = tuple((self.jwt_algorithms or "").replace(",", " ").split())
        if not set(named) <= set(ALGORITHMS):
            raise ValueError(f"HITHERTO_JWT_ALGORITHMS may name {', '.join(ALGORITHMS)} only")
        if not set(named) <= set(possible):
            raise ValueError(
                f"HITHERTO_JWT_ALGORITHMS: {SECRET_ALGORITHM} needs HITHERTO_JWT_SECRET_FILE, the "
                "others need HITHERTO_JWT_JWKS"
            )
        if named and not set(by_secret) <= set(named):
            raise ValueError(
                "HITHERTO_JWT_SECRET_FILE is set but HITHERTO_JWT_ALGORITHMS leaves out "
                f"{SECRET_ALGORITHM}: remove one of the two settings"
            )
        return named or possible

    @model_validator(mode="after")
    def _one_key_at_most(self) -> Self:
        named = (self.encryption_key, self.encryption_key_file, self.key_wrapper)
        if sum(value is not None for value in named) > 1:
            raise ValueError(
                f"set one of {_KEK}, HITHERTO_ENCRYPTION_KEY_FILE and HITHERTO_KEY_WRAPPER, or none"
            )
        if self.encryption_key is not None:
            read_kek(self.encryption_key.get_secret_value(), _KEK)
        return self

    def load_key_wrapper(self) -> KeyWrapper | None:
        """The key-encryption key; None: encryption is not available.

        Raises:
            ValueError: The file or the hook cannot be used; the message names the variable.
        """
        if self.encryption_key is not None:
            return LocalWrapper(read_kek(self.encryption_key.get_secret_value(), _KEK))
        if self.encryption_key_file is not None:
            with named_by("HITHERTO_ENCRYPTION_KEY_FILE"):
                return LocalWrapper(read_kek_file(self.encryption_key_file))
        return load_wrapper(self.key_wrapper) if self.key_wrapper is not None else None

    @model_validator(mode="after")
    def _tls_is_whole(self) -> Self:
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise ValueError(
                "set both HITHERTO_TLS_CERTIFICATE_FILE and HITHERTO_TLS_KEY_FILE, or neither"
            )
        if self.tls_client_ca_file is not None and self.tls_key_file is None:
            raise ValueError(
                "HITHERTO_TLS_CLIENT_CA_FILE requires TLS: set HITHERTO_TLS_CERTIFICATE_FILE and "
                "HITHERTO_TLS_KEY_FILE too"
            )
        return self

    def check_listen(self, listen: str) -> None:
        """Refuse to send memories over a network without TLS.

        Raises:
            ValueError: The address is not loopback, TLS is off, and this was not explicitly
                permitted.
        """
        if is_loopback(listen) or self.tls_key_file is not None or self.insecure_listen:
            return
        raise ValueError(
            f"{listen} is reachable by other machines and TLS is off: set "
            "HITHERTO_TLS_CERTIFICATE_FILE and HITHERTO_TLS_KEY_FILE, or, behind a proxy that "
            "encrypts, HITHERTO_INSECURE_LISTEN=true"
        )


def is_loopback(listen: str) -> bool:
    """True when `host:port` can be reached from this machine only."""
    return listen.startswith("unix:") or is_local(listen.rpartition(":")[0].strip("[]"))


def describe(error: ValidationError) -> str:
    """What is wrong with the environment, without its values."""
    # What the library puts before our own words says nothing to people.
    return "; ".join(
        f"{_variable(item['loc'])}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_input=False)
    )


def _variable(location: tuple[int | str, ...]) -> str:
    """The environment variable of an invalid field, or what is wrong as a whole."""
    if not location:
        return "settings"
    # Fields with a variable of another name are reported by that name, which is upper case.
    name = str(location[0])
    return name if name.isupper() else f"{PREFIX}{name.upper()}"
