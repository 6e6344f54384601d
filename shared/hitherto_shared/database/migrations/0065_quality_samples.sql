-- How many conversations were checked for quality since an extractor first used a prompt version.
-- Numbers of the installation: nothing here belongs to a tenant or a user.
CREATE TABLE quality_samples (
    extractor text NOT NULL,
    prompt_version text NOT NULL,
    conversations integer NOT NULL CHECK (conversations > 0),
    PRIMARY KEY (extractor, prompt_version)
);

GRANT SELECT, INSERT, UPDATE ON quality_samples TO hitherto_write;
