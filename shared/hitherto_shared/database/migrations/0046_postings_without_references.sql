-- A commit writes hundreds of postings of one user, and each of them looked for the user's row: a
-- third of what the index costs. Whoever writes postings holds that row (`users` for memories,
-- `users` and `passage_statistics`, which refers to it, for passages), and an erase looks through
-- every table once the row is gone.
ALTER TABLE postings DROP CONSTRAINT IF EXISTS postings_tenant_id_user_id_fkey;
ALTER TABLE passage_postings DROP CONSTRAINT IF EXISTS passage_postings_tenant_id_user_id_fkey;
