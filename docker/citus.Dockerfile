# A node of a Citus cluster: the public image, and pgvector from the same source of packages.
ARG CITUS_IMAGE=citusdata/citus:13.0.3

FROM ${CITUS_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends "postgresql-${PG_MAJOR}-pgvector" \
    && rm -rf /var/lib/apt/lists/*
