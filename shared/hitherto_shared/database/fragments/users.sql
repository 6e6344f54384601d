-- Parts of statements about one user.

-- @its_user: tenant and user of rows to insert, from the user's row, and the time of the transaction:
-- an engine that distributes rows then knows that they belong to the shard on which it finds it.
SELECT tenant_id, user_id, now() AS at FROM users
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s;

-- @clock: the time of the statement, as a column: an engine that distributes rows lets no function of
-- time decide within a change. A transaction may have begun before others that held the user's row.
SELECT statement_timestamp() AS at;
