-- What happens to secrets in what is stored about a user; NULL follows the installation.
ALTER TABLE users ADD COLUMN redact_secrets text CHECK (redact_secrets IN ('redact', 'seal', 'off'));
