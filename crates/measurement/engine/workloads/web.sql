-- what a web application asks its database: sessions, pages with their comments, a list, a search; one in twenty writes
-- @reason Most requests of most applications read a few rows by several indexes, and a few
--   write. Pages are wanted by a Zipfian distribution: the hottest get most of the requests.
-- @writes
-- @without-pgbench-tables
-- @setup CREATE TABLE member (id int NOT NULL, name text NOT NULL, mail text NOT NULL, seen timestamptz NOT NULL)
-- @setup CREATE TABLE page (id int NOT NULL, member int NOT NULL, topic int NOT NULL, made timestamptz NOT NULL,
--   views int NOT NULL, title text NOT NULL, body text NOT NULL)
-- @setup CREATE TABLE comment (id bigserial, page int NOT NULL, member int NOT NULL, made timestamptz NOT NULL,
--   body text NOT NULL)
-- @setup INSERT INTO member SELECT g, 'member ' || g, md5(g::text) || '@example.org', now() FROM
--   generate_series(1, 10000 * :scale) g
-- @setup INSERT INTO page SELECT g, g % (10000 * :scale) + 1, g % 500, now() - g * interval '1 minute', 0,
--   'page ' || md5(g::text), repeat(md5((-g)::text), 20) FROM generate_series(1, 10000 * :scale) g
-- @setup INSERT INTO comment (page, member, made, body) SELECT g % (10000 * :scale) + 1,
--   (g * 7919::bigint) % (10000 * :scale) + 1, now() - g * interval '1 second', md5(g::text) FROM
--   generate_series(1, 50000 * :scale) g
-- @setup ALTER TABLE member ADD PRIMARY KEY (id)
-- @setup CREATE UNIQUE INDEX ON member (mail)
-- @setup ALTER TABLE page ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON page (topic, made)
-- @setup ALTER TABLE comment ADD PRIMARY KEY (id)
-- @setup CREATE INDEX ON comment (page, made)
-- @script session 40
\set member random(1, 10000 * :scale)
SELECT id, name, seen FROM member WHERE id = :member;
-- @script page 30
\set r random_zipfian(1, 10000 * :scale, 1.05)
\set page permute(:r - 1, 10000 * :scale) + 1
BEGIN;
SELECT p.id, p.title, p.body, p.made, m.name FROM page p JOIN member m ON m.id = p.member WHERE p.id = :page;
SELECT c.id, c.made, c.body, m.name FROM comment c JOIN member m ON m.id = c.member
  WHERE c.page = :page ORDER BY c.made DESC LIMIT 10;
COMMIT;
-- @script list 15
\set topic random(0, 499)
SELECT id, title, made FROM page WHERE topic = :topic ORDER BY made DESC LIMIT 20;
-- @script login 10
\set member random(1, 10000 * :scale)
SELECT id, name FROM member WHERE mail = md5(:member::int::text) || '@example.org';
-- @script comment 3
\set r random_zipfian(1, 10000 * :scale, 1.05)
\set page permute(:r - 1, 10000 * :scale) + 1
\set member random(1, 10000 * :scale)
BEGIN;
INSERT INTO comment (page, member, made, body) VALUES (:page, :member, now(), md5(:member::int::text));
UPDATE page SET views = views + 1 WHERE id = :page;
COMMIT;
-- @script seen 2
\set member random(1, 10000 * :scale)
UPDATE member SET seen = now() WHERE id = :member;
