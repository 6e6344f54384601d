"""Settings of encryption, for both services and `hitherto-keys`."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import SecretStr, model_validator
from pydantic_settings import BaseSettings

from hitherto_shared.encryption.wrapping import (
    KeyWrapper,
    LocalWrapper,
    load_wrapper,
    read_kek,
    read_kek_file,
)

KEY = "HITHERTO_ENCRYPTION_KEY"
_EXCLUSIVE = f"{KEY}, HITHERTO_ENCRYPTION_KEY_FILE and HITHERTO_KEY_WRAPPER"


class EncryptionSettings(BaseSettings):
    """The key-encryption key, from one of three places, and the folder of users' data keys."""

    encryption_key: SecretStr | None = None
    encryption_key_file: Path | None = None
    key_wrapper: str | None = None
    user_keys_dir: Path | None = None

    @model_validator(mode="after")
    def _one_key_at_most(self) -> Self:
        named = (self.encryption_key, self.encryption_key_file, self.key_wrapper)
        if sum(value is not None for value in named) > 1:
            raise ValueError(f"set one of {_EXCLUSIVE}, or none")
        if self.encryption_key is not None:
            read_kek(self.encryption_key.get_secret_value(), KEY)
        return self

    def load_key_wrapper(self) -> KeyWrapper | None:
        """The key-encryption key; None: encryption is not available.

        Raises:
            ValueError: The file or the hook cannot be used; the message names the variable or file.
        """
        if self.encryption_key is not None:
            return LocalWrapper(read_kek(self.encryption_key.get_secret_value(), KEY))
        if self.encryption_key_file is not None:
            return LocalWrapper(read_kek_file(self.encryption_key_file))
        return load_wrapper(self.key_wrapper) if self.key_wrapper is not None else None
