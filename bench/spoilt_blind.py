"""Twenty spoilt servers written without knowing what pgassay looks for, each with one cause.

For bench/spoilt.py PGASSAY --entries spoilt_blind. The keys are those of spoilt_entries.py, but for

  cause       what is wrong, in words
  mends       what a right remedy says, in words

in the place of `expect` and `remedy`: whether the first page names the cause and the remedy is for a reader to judge.

They were tried once as they stood. `protocol`, and how queue-and-old-snapshot is mended, were changed afterwards, because
four loads could not run or be slow with prepared statements and one mending held what it should let go; no cause was.
"""

ENTRIES = []


def entry(**k):
    ENTRIES.append(k)


# ---------------------------------------------------------------- statements

entry(
    id="meter-bigdecimal", area="statements",
    cause="The application hands the bigint key over as numeric (the driver maps BigDecimal), so the comparison is "
          "done in numeric, the primary key's index can't be used and every lookup reads the whole table.",
    mends="Pass the parameter as bigint (cast to bigint / change the type in the mapping of the driver), so that the "
          "primary key is used. An index on (id::numeric) would be a crutch.",
    spoil="""
CREATE TABLE meter_reading (id bigint PRIMARY KEY, meter_id int NOT NULL, taken_at timestamptz NOT NULL, kwh int NOT NULL);
INSERT INTO meter_reading SELECT g, g % 4000, timestamptz '2024-01-01' + g * interval '1 minute', g % 977
  FROM generate_series(1, 110000) g;
VACUUM ANALYZE meter_reading;
""",
    load="""
\\set id random(1, 110000)
SELECT meter_id, taken_at, kwh FROM meter_reading WHERE id = :id::numeric;
""",
    mend_load="""
\\set id random(1, 110000)
SELECT meter_id, taken_at, kwh FROM meter_reading WHERE id = :id::bigint;
""",
)

entry(
    id="helpdesk-search-or", area="statements",
    cause="The search form's statement joins orders and customers and filters with OR over columns of both tables; "
          "neither index can be used for such an OR, so the whole join is computed each time.",
    mends="Write the search as a UNION of two statements, one by order reference and one by e-mail, each with its index.",
    spoil="""
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, email text NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customer, reference text NOT NULL, total numeric(10,2) NOT NULL);
INSERT INTO customer SELECT g, 'Customer ' || g, 'user' || g || '@example.org' FROM generate_series(1, 12000) g;
INSERT INTO orders SELECT g, 1 + (g * 7919) % 12000, 'R' || g, (g % 1000) / 7.0 FROM generate_series(1, 60000) g;
CREATE INDEX ON customer (email);
CREATE INDEX ON orders (reference);
CREATE INDEX ON orders (customer_id);
VACUUM ANALYZE customer; VACUUM ANALYZE orders;
""",
    load="""
\\set r random(1, 60000)
\\set c random(1, 12000)
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customer c ON c.id = o.customer_id
 WHERE o.reference = 'R' || :r OR c.email = 'user' || :c || '@example.org';
""",
    mend_load="""
\\set r random(1, 60000)
\\set c random(1, 12000)
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customer c ON c.id = o.customer_id
 WHERE o.reference = 'R' || :r
UNION
SELECT o.id, o.reference, o.total, c.name FROM orders o JOIN customer c ON c.id = o.customer_id
 WHERE c.email = 'user' || :c || '@example.org';
""",
)

entry(
    id="business-date", area="statements",
    cause="The function business_date() was created without a volatility class, so it counts as VOLATILE: it is called "
          "for every row, and the index on booked_on can't be used with it.",
    mends="Declare the function STABLE (ALTER FUNCTION business_date() STABLE), or call it once in a scalar subquery.",
    role="app",
    spoil="""
CREATE TABLE app_config (key text PRIMARY KEY, val text NOT NULL);
INSERT INTO app_config VALUES ('business_date', '2024-03-15'), ('site', 'Bern'), ('currency', 'CHF');
CREATE TABLE booking (id bigserial PRIMARY KEY, branch int NOT NULL, booked_on date NOT NULL, amount numeric(12,2) NOT NULL);
INSERT INTO booking (branch, booked_on, amount)
  SELECT g % 40, date '2023-10-01' + g % 300, g % 9999 FROM generate_series(1, 9000) g;
CREATE INDEX booking_day ON booking (booked_on);
CREATE FUNCTION business_date() RETURNS date LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT val::date FROM app_config WHERE key = 'business_date');
END $$;
GRANT SELECT ON app_config, booking TO app;
VACUUM ANALYZE booking; VACUUM ANALYZE app_config;
""",
    load="""
\\set b random(0, 39)
SELECT count(*), sum(amount) FROM booking WHERE booked_on = business_date() AND branch < :b;
""",
    mend="ALTER FUNCTION business_date() STABLE;",
)

entry(
    id="last-event-of-old-device", area="statements",
    cause="'Newest event of a device' (ORDER BY id DESC LIMIT 1) is planned as a backward walk along the primary key, "
          "because the planner takes the device's rows to be evenly spread; the devices asked for were retired long ago, "
          "so most of the table is walked. The index on device_id is passed over.",
    mends="An index on (device_id, id), which serves filter and order at once (or ORDER BY id + 0 so that the index "
          "on device_id is taken).",
    spoil="""
CREATE TABLE event (id bigint PRIMARY KEY, device_id int NOT NULL, kind smallint NOT NULL, body text);
-- devices 0..499 reported in the first third, 500..1499 afterwards
INSERT INTO event SELECT g, CASE WHEN g <= 60000 THEN (g * 31) % 500 ELSE 500 + (g * 31) % 1000 END, g % 7, 'value=' || g
  FROM generate_series(1, 180000) g;
CREATE INDEX event_device ON event (device_id);
VACUUM ANALYZE event;
""",
    load="""
\\set d random(0, 499)
SELECT id, kind, body FROM event WHERE device_id = :d ORDER BY id DESC LIMIT 1;
""",
    mend="CREATE INDEX event_device_id ON event (device_id, id); ANALYZE event;",
)

entry(
    id="to-eur-per-row", area="statements",
    cause="The report converts every row by a PL/pgSQL function that itself looks up the rate with a query: "
          "thousands of small nested queries per statement instead of one join.",
    mends="Replace the function in the select list by a join with the table of rates (or an inlinable SQL form of it).",
    spoil="""
CREATE TABLE rate (currency text, day date, rate numeric NOT NULL, PRIMARY KEY (currency, day));
INSERT INTO rate SELECT c, date '2024-01-01' + d, 1 + d / 100.0
  FROM unnest(ARRAY['USD','CHF','GBP','PLN','SEK']) c, generate_series(0, 89) d;
CREATE TABLE sale (id bigserial PRIMARY KEY, shop int NOT NULL, day date NOT NULL, currency text NOT NULL, amount numeric(10,2) NOT NULL);
INSERT INTO sale (shop, day, currency, amount)
  SELECT g % 30, date '2024-01-01' + g % 90, (ARRAY['USD','CHF','GBP','PLN','SEK'])[1 + (g / 30) % 5], g % 500
  FROM generate_series(1, 90000) g;
CREATE INDEX ON sale (shop);
CREATE FUNCTION to_eur(p_amount numeric, p_currency text, p_day date) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE r numeric;
BEGIN
  SELECT rate.rate INTO r FROM rate WHERE currency = p_currency AND day = p_day;
  IF NOT FOUND THEN RAISE EXCEPTION 'no rate for % on %', p_currency, p_day; END IF;
  RETURN p_amount / r;
END $$;
VACUUM ANALYZE rate; VACUUM ANALYZE sale;
""",
    load="""
\\set s random(0, 29)
SELECT currency, sum(to_eur(amount, currency, day)) FROM sale WHERE shop = :s GROUP BY currency;
""",
    mend_load="""
\\set s random(0, 29)
SELECT s.currency, sum(s.amount / r.rate) FROM sale s JOIN rate r USING (currency, day) WHERE s.shop = :s GROUP BY s.currency;
""",
)

entry(
    id="balance-view", area="statements",
    cause="The view account_balance groups the whole ledger; joined by the account's number, the condition can't be "
          "pushed down below the GROUP BY, so every look-up of one balance sums up all accounts.",
    mends="Ask for the one account: a LATERAL or scalar subquery on the ledger (or pass the account id as a constant "
          "to the view), so that the index on ledger.account_id is used; or keep balances in a table.",
    spoil="""
CREATE TABLE account (id int PRIMARY KEY, no text NOT NULL UNIQUE, owner text NOT NULL);
CREATE TABLE ledger (id bigserial PRIMARY KEY, account_id int NOT NULL REFERENCES account, at timestamptz NOT NULL, amount bigint NOT NULL);
INSERT INTO account SELECT g, 'AC' || lpad(g::text, 8, '0'), 'Owner ' || g FROM generate_series(1, 5000) g;
INSERT INTO ledger (account_id, at, amount) SELECT 1 + (g * 7) % 5000, now() - g * interval '1 minute', g % 1000 - 480
  FROM generate_series(1, 100000) g;
CREATE INDEX ON ledger (account_id);
CREATE VIEW account_balance AS
  SELECT account_id, sum(amount) AS balance, max(at) AS last_move, count(*) AS moves FROM ledger GROUP BY account_id;
VACUUM ANALYZE account; VACUUM ANALYZE ledger;
""",
    load="""
\\set a random(1, 5000)
SELECT a.owner, b.balance, b.last_move FROM account a JOIN account_balance b ON b.account_id = a.id
 WHERE a.no = 'AC' || lpad(:a::text, 8, '0');
""",
    mend_load="""
\\set a random(1, 5000)
SELECT a.owner, b.balance, b.last_move FROM account a CROSS JOIN LATERAL
  (SELECT sum(amount) AS balance, max(at) AS last_move FROM ledger l WHERE l.account_id = a.id) b
 WHERE a.no = 'AC' || lpad(:a::text, 8, '0');
""",
)

# -------------------------------------------------------------------- schema

entry(
    id="rls-has-access", area="schema",
    cause="The row-level security policy calls a PL/pgSQL function (with a query in it) for every row that a statement touches.",
    mends="Write the policy so that membership is worked out once per statement: project_id IN (SELECT project_id FROM "
          "membership WHERE member = current_user), not a function of the row.",
    role="app",
    spoil="""
CREATE TABLE membership (member name, project_id int, PRIMARY KEY (member, project_id));
INSERT INTO membership SELECT 'app', g FROM generate_series(1, 120) g;
INSERT INTO membership SELECT 'user' || u, g FROM generate_series(1, 50) u, generate_series(1, 40) g;
CREATE TABLE document (id int PRIMARY KEY, project_id int NOT NULL, state text NOT NULL, bytes int NOT NULL, title text NOT NULL);
INSERT INTO document SELECT g, 1 + g % 300, CASE WHEN g % 10 = 0 THEN 'open' ELSE 'closed' END, g % 5000, 'Document ' || g
  FROM generate_series(1, 40000) g;
CREATE INDEX ON document (state);
CREATE FUNCTION has_access(p_project int) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
  RETURN EXISTS (SELECT FROM membership WHERE member = session_user AND project_id = p_project);
END $$;
ALTER TABLE document ENABLE ROW LEVEL SECURITY;
CREATE POLICY members_only ON document USING (has_access(project_id));
GRANT SELECT ON document, membership TO app;
VACUUM ANALYZE document; VACUUM ANALYZE membership;
""",
    load="""
\\set b random(1, 5000)
SELECT count(*), sum(bytes) FROM document WHERE state = 'open' AND bytes < :b + 2500;
""",
    mend="""
ALTER POLICY members_only ON document USING (project_id IN (SELECT m.project_id FROM membership m WHERE m.member = session_user));
""",
)

entry(
    id="hits-in-json", area="schema",
    cause="A page-hit counter lives inside a large jsonb document: every increment unpacks the document of some 100 kB and "
          "writes it anew (TOAST and WAL), for one number.",
    mends="Keep the counter (what changes often) in a column or table of its own, out of the big document.",
    spoil="""
CREATE TABLE page (id int PRIMARY KEY, slug text NOT NULL, doc jsonb NOT NULL);
INSERT INTO page SELECT p, 'page-' || p, jsonb_build_object('hits', 0, 'title', 'Page ' || p, 'blocks',
    (SELECT jsonb_agg(jsonb_build_object('k', b, 't', md5(p || '/' || b) || md5(b || '-' || p))) FROM generate_series(1, 1200) b))
  FROM generate_series(1, 150) p;
VACUUM ANALYZE page;
""",
    load="""
\\set p random(1, 150)
UPDATE page SET doc = jsonb_set(doc, '{hits}', to_jsonb((doc->>'hits')::int + 1)) WHERE id = :p;
""",
    mend="ALTER TABLE page ADD COLUMN IF NOT EXISTS hits int NOT NULL DEFAULT 0;",
    mend_load="""
\\set p random(1, 150)
UPDATE page SET hits = hits + 1 WHERE id = :p;
""",
)

entry(
    id="gin-pending", area="schema", protocol="simple",
    cause="The GIN index for full text search has collected a huge pending list (fastupdate with a limit of 512 MB, and "
          "autovacuum is switched off for the table, so nobody ever merges it); each search reads the list from end to end.",
    mends="Merge the list (gin_clean_pending_list or VACUUM), lower gin_pending_list_limit or switch fastupdate off, and let "
          "autovacuum work on the table.",
    spoil="""
CREATE TABLE mail (id bigserial PRIMARY KEY, subject text NOT NULL, tsv tsvector NOT NULL) WITH (autovacuum_enabled = off);
CREATE INDEX mail_tsv ON mail USING gin (tsv) WITH (fastupdate = on, gin_pending_list_limit = 524288);
INSERT INTO mail (subject, tsv)
  SELECT 'Mail ' || g, (SELECT string_agg('w' || (hashint4(g * 40 + w) & 4095), ' ') FROM generate_series(1, 16) w)::tsvector
  FROM generate_series(1, 24000) g;
ANALYZE mail;
""",
    load="""
\\set a random(0, 4095)
\\set b random(0, 4095)
SELECT id, subject FROM mail WHERE tsv @@ format('w%s & w%s', :a, :b)::tsquery;
""",
    mend="""
ALTER INDEX mail_tsv SET (fastupdate = off);
SELECT gin_clean_pending_list('mail_tsv');
ALTER TABLE mail SET (autovacuum_enabled = on);
""",
)

entry(
    id="last-seen-index", area="schema",
    cause="An index on member.last_seen, which no query uses, makes the update of last_seen a non-HOT one; so each log-in "
          "also writes new entries into all other indexes, among them the big trigram GIN index on bio.",
    mends="Drop the index on last_seen (or move last_seen to a table of its own), so that the updates become HOT "
          "and leave the GIN index alone.",
    spoil="""
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE member (id int PRIMARY KEY, name text NOT NULL, bio text NOT NULL, last_seen timestamptz) WITH (fillfactor = 60);
INSERT INTO member SELECT g, 'Member ' || g, (SELECT string_agg(md5(g || '.' || w), ' ') FROM generate_series(1, 12) w), now() - g * interval '1 minute'
  FROM generate_series(1, 4000) g;
CREATE INDEX member_bio_trgm ON member USING gin (bio gin_trgm_ops) WITH (fastupdate = off);
CREATE INDEX member_last_seen ON member (last_seen);
VACUUM ANALYZE member;
""",
    load="""
\\set m random(1, 4000)
UPDATE member SET last_seen = clock_timestamp() WHERE id = :m;
SELECT name FROM member WHERE id = :m;
""",
    mend="DROP INDEX member_last_seen;",
)

entry(
    id="audit-dblink", area="schema",
    cause="The audit trigger writes its line over dblink (to be an 'autonomous transaction') and opens a new connection "
          "for every row changed.",
    mends="Write the audit row in the same transaction with a plain INSERT (or at least keep one named dblink connection "
          "open per session, or log with RAISE LOG).",
    spoil="""
CREATE EXTENSION IF NOT EXISTS dblink;
CREATE TABLE audit_log (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), what text NOT NULL);
CREATE TABLE stock_item (id int PRIMARY KEY, name text NOT NULL, qty int NOT NULL);
INSERT INTO stock_item SELECT g, 'Item ' || g, 1000 FROM generate_series(1, 20000) g;
CREATE FUNCTION stock_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM dblink_exec(
    format('host=%s port=%s dbname=%s user=%s', split_part(current_setting('unix_socket_directories'), ',', 1),
           current_setting('port'), current_database(), session_user),
    format('INSERT INTO audit_log (what) VALUES (%L)', format('item %s: %s -> %s', NEW.id, OLD.qty, NEW.qty)));
  RETURN NEW;
END $$;
CREATE TRIGGER stock_audit AFTER UPDATE ON stock_item FOR EACH ROW EXECUTE FUNCTION stock_audit();
VACUUM ANALYZE stock_item;
""",
    load="""
\\set i random(1, 20000)
\\set n random(1, 5)
UPDATE stock_item SET qty = qty - :n WHERE id = :i;
""",
    mend="""
CREATE OR REPLACE FUNCTION stock_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit_log (what) VALUES (format('item %s: %s -> %s', NEW.id, OLD.qty, NEW.qty));
  RETURN NEW;
END $$;
""",
)

# ------------------------------------------------------------------ settings

_dims = ["region", "channel", "carrier", "warehouse", "currency", "salesman", "campaign", "tariff", "segment", "vat"]
entry(
    id="view-of-eleven", area="settings", protocol="simple",
    cause="join_collapse_limit and from_collapse_limit were raised to 30 and geqo switched off; the look-up through a "
          "view of eleven tables is planned exhaustively each time, and planning takes many times longer than running.",
    mends="Set join_collapse_limit/from_collapse_limit back to 8 and geqo on (or prepare the statement so that the plan "
          "is kept, or ask only the tables needed).",
    settings={"join_collapse_limit": "30", "from_collapse_limit": "30", "geqo": "off"},
    spoil="".join("""
CREATE TABLE %s (id int PRIMARY KEY, label text NOT NULL);
INSERT INTO %s SELECT g, '%s ' || g FROM generate_series(1, 200) g;
ANALYZE %s;
""" % (d, d, d, d) for d in _dims) + """
CREATE TABLE shipment (id int PRIMARY KEY, weight int NOT NULL, """ + ", ".join("%s_id int NOT NULL" % d for d in _dims) + """);
INSERT INTO shipment SELECT g, g %% 50, """.replace("%%", "%") + ", ".join("1 + (g * %d) %% 200".replace("%%", "%") % (i + 3) if False else
    "1 + (g * " + str(i + 3) + ") % 200" for i, d in enumerate(_dims)) + """ FROM generate_series(1, 20000) g;
CREATE VIEW shipment_full AS SELECT s.id, s.weight, """ + ", ".join("%s.label AS %s" % (d, d) for d in _dims) + """
  FROM shipment s """ + " ".join("JOIN %s ON %s.id = s.%s_id" % (d, d, d) for d in _dims) + """;
VACUUM ANALYZE shipment;
""",
    load="""
\\set i random(1, 20000)
SELECT * FROM shipment_full WHERE id = :i;
""",
    mend_settings={},
)

entry(
    id="statistics-3000", area="settings", protocol="simple",
    cause="default_statistics_target was raised to 3000: the most-common-value lists of the join columns have thousands of "
          "entries, and the planner compares them all with each other for each statement; planning takes nearly all the time.",
    mends="Lower default_statistics_target to about 100 (raise it for single columns only where needed) and ANALYZE again; "
          "or use prepared statements.",
    settings={"default_statistics_target": "3000"},
    spoil="""
CREATE TABLE stock (id int PRIMARY KEY, sku text NOT NULL, qty int NOT NULL);
CREATE TABLE price (id int PRIMARY KEY, sku text NOT NULL, shop int NOT NULL, amount int NOT NULL);
INSERT INTO stock SELECT g, 'SKU-' || (g * 13) % 1400, g % 90 FROM generate_series(1, 28000) g;
INSERT INTO price SELECT g, 'SKU-' || (g * 17) % 1400, g % 20, g % 500 FROM generate_series(1, 28000) g;
CREATE INDEX ON price (sku);
CREATE INDEX ON stock (sku);
VACUUM ANALYZE stock; VACUUM ANALYZE price;
""",
    load="""
\\set i random(1, 28000)
SELECT s.qty, p.shop, p.amount FROM stock s JOIN price p ON p.sku = s.sku WHERE s.id = :i;
""",
    mend_settings={},
    mend="SET default_statistics_target = 100; ANALYZE stock; ANALYZE price;",
)

entry(
    id="generic-plan-role", area="settings",
    cause="The application's role has plan_cache_mode = force_generic_plan in this database; the search statement with "
          "optional filters (0 means all) is prepared, and its generic plan has to read the whole table as it can't know "
          "which filters are set.",
    mends="Take plan_cache_mode off the role (ALTER ROLE app IN DATABASE ... RESET plan_cache_mode), so that custom plans are "
          "made; or build the statement from the filters that are set.",
    role="app",
    args=["-M", "prepared"],
    spoil="""
CREATE TABLE ticket (id int PRIMARY KEY, customer_id int NOT NULL, agent_id int NOT NULL, state text NOT NULL, opened date NOT NULL);
INSERT INTO ticket SELECT g, 1 + (g * 7) % 6000, 1 + g % 80, CASE WHEN g % 9 = 0 THEN 'open' ELSE 'closed' END, date '2020-01-01' + g % 1500
  FROM generate_series(1, 80000) g;
CREATE INDEX ON ticket (customer_id);
CREATE INDEX ON ticket (agent_id);
GRANT SELECT ON ticket TO app;
ALTER ROLE app IN DATABASE spoilt SET plan_cache_mode = force_generic_plan;
VACUUM ANALYZE ticket;
""",
    load="""
\\set customer random(1, 6000)
\\set agent 0
SELECT id, state, opened FROM ticket
 WHERE (:customer::int = 0 OR customer_id = :customer::int) AND (:agent::int = 0 OR agent_id = :agent::int);
""",
    mend="ALTER ROLE app IN DATABASE spoilt RESET plan_cache_mode;",
)

entry(
    id="auto-explain-left-on", area="settings",
    cause="auto_explain was left on after a hunt for a slow query, with log_analyze, log_timing and a minimum duration of 0: "
          "each node of each statement is timed and every plan, also those nested in functions, is written to the log.",
    mends="Take auto_explain out of shared_preload_libraries, or set log_min_duration high and log_timing (log_analyze) off "
          "or a sample_rate.",
    preload="pg_stat_statements,auto_explain",
    settings={"auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on", "auto_explain.log_timing": "on",
              "auto_explain.log_buffers": "on", "auto_explain.log_verbose": "on", "auto_explain.log_nested_statements": "on"},
    spoil="""
CREATE TABLE depot (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE parcel (id int PRIMARY KEY, depot_id int NOT NULL, route int NOT NULL, grams int NOT NULL);
INSERT INTO depot SELECT g, 'Depot ' || g FROM generate_series(1, 400) g;
INSERT INTO parcel SELECT g, 1 + g % 400, g % 3000, g % 2000 FROM generate_series(1, 60000) g;
CREATE INDEX ON parcel (route);
CREATE FUNCTION postage(p_grams int) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE r int;
BEGIN
  SELECT CASE WHEN p_grams < 500 THEN 3 WHEN p_grams < 1000 THEN 5 ELSE 9 END INTO r FROM depot WHERE id = 1;
  RETURN r;
END $$;
VACUUM ANALYZE depot; VACUUM ANALYZE parcel;
""",
    load="""
\\set r random(0, 2999)
SELECT p.id, d.name, postage(p.grams) FROM parcel p JOIN depot d ON d.id = p.depot_id WHERE p.route = :r;
""",
    mend_preload="pg_stat_statements",
    mend_settings={},
)

# ------------------------------------------------------------------ workload

entry(
    id="queue-and-old-snapshot", area="workload",
    cause="A reporting session keeps a repeatable-read transaction open (idle behind a long sleep), so the rows deleted from "
          "the job queue can't be cleaned away; each worker wades through all dead entries at the front of the index.",
    mends="End the long transaction (commit after reading, idle_in_transaction_session_timeout, run reports elsewhere); "
          "then the queue's dead rows can be pruned.",
    spoil="""
CREATE TABLE job (id bigserial PRIMARY KEY, kind int NOT NULL, payload text NOT NULL);
CREATE TABLE report_cache (id int PRIMARY KEY, total bigint NOT NULL);
INSERT INTO report_cache SELECT g, g FROM generate_series(1, 100) g;
INSERT INTO job (kind, payload) SELECT g % 5, 'work ' || g FROM generate_series(1, 2000) g;
VACUUM ANALYZE job; VACUUM ANALYZE report_cache;
""",
    load="""
\\set k random(0, 4)
BEGIN;
DELETE FROM job WHERE id IN (SELECT id FROM job ORDER BY id LIMIT 15 FOR UPDATE SKIP LOCKED);
INSERT INTO job (kind, payload) SELECT :k, 'work ' || g FROM generate_series(1, 15) g;
COMMIT;
""",
    beside="""
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT sum(total) FROM report_cache;
SELECT pg_sleep(30);
COMMIT;
""",
    # The dead rows that there are go away, and a statement that sleeps would have a snapshot, too.
    mend="VACUUM job;",
    mend_beside="""
SELECT sum(total) FROM report_cache;
\\! sleep 1
""",
)

entry(
    id="refresh-blocks-readers", area="workload",
    cause="A job refreshes the materialized view over and over with plain REFRESH MATERIALIZED VIEW, which holds an ACCESS "
          "EXCLUSIVE lock as long as the query runs; the readers of the dashboard wait behind it.",
    mends="REFRESH MATERIALIZED VIEW CONCURRENTLY (the unique index is there), and less often.",
    role="app",
    spoil="""
CREATE TABLE visit (id int PRIMARY KEY, site int NOT NULL, day date NOT NULL, ms int NOT NULL);
INSERT INTO visit SELECT g, g % 60, date '2024-01-01' + (g * 7) % 20, g % 3000 FROM generate_series(1, 150000) g;
CREATE MATERIALIZED VIEW dashboard AS
  SELECT site, day, count(*) AS visits, percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95 FROM visit GROUP BY site, day;
CREATE UNIQUE INDEX ON dashboard (site, day);
GRANT SELECT ON dashboard TO app;
VACUUM ANALYZE visit; ANALYZE dashboard;
""",
    load="""
\\set s random(0, 59)
SELECT day, visits, p95 FROM dashboard WHERE site = :s ORDER BY day;
""",
    beside="""
REFRESH MATERIALIZED VIEW dashboard;
SELECT pg_sleep(0.03);
""",
    mend_beside="""
REFRESH MATERIALIZED VIEW CONCURRENTLY dashboard;
SELECT pg_sleep(0.03);
""",
)

entry(
    id="invoice-number-first", area="workload",
    cause="Each transaction takes the next invoice number from a one-row counter at its beginning and then waits for an outside "
          "service before it commits; all others queue for that row's lock meanwhile.",
    mends="Take the number as the last thing before COMMIT (or from a sequence), and do not call outside services while the "
          "row is locked.",
    clients=6,
    spoil="""
CREATE TABLE invoice_counter (year int PRIMARY KEY, last_no bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO invoice_counter VALUES (2023, 91822), (2024, 0);
CREATE TABLE invoice (id bigserial PRIMARY KEY, no bigint, customer int NOT NULL, total int NOT NULL);
VACUUM ANALYZE invoice_counter;
""",
    load="""
\\set c random(1, 10000)
\\set t random(1, 500)
BEGIN;
UPDATE invoice_counter SET last_no = last_no + 1 WHERE year = 2024 RETURNING last_no AS no \\gset
\\sleep 5 ms
INSERT INTO invoice (no, customer, total) VALUES (:no, :c, :t);
COMMIT;
""",
    mend_load="""
\\set c random(1, 10000)
\\set t random(1, 500)
\\sleep 5 ms
BEGIN;
UPDATE invoice_counter SET last_no = last_no + 1 WHERE year = 2024 RETURNING last_no AS no \\gset
INSERT INTO invoice (no, customer, total) VALUES (:no, :c, :t);
COMMIT;
""",
)

entry(
    id="notify-on-every-write", area="workload",
    cause="A trigger sends NOTIFY with every write; a transaction with NOTIFY commits under a lock of the whole cluster, so "
          "the commits follow one another instead of being flushed in groups.",
    mends="Do not NOTIFY in each writing transaction: collect the messages (one notifier, an outbox table polled in batches, "
          "or logical decoding), so that commits run in parallel again.",
    clients=16,
    spoil="""
CREATE TABLE chat (id bigserial PRIMARY KEY, room int NOT NULL, at timestamptz NOT NULL DEFAULT now(), body text NOT NULL);
CREATE FUNCTION chat_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('chat', NEW.room || ':' || NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER chat_notify AFTER INSERT ON chat FOR EACH ROW EXECUTE FUNCTION chat_notify();
VACUUM ANALYZE chat;
""",
    load="""
\\set r random(1, 500)
INSERT INTO chat (room, body) VALUES (:r, 'hello there');
""",
    mend="DROP TRIGGER chat_notify ON chat;",
)

# --------------------------------------------------------------- replication

entry(
    id="slot-catalog-xmin", area="replication", protocol="simple",
    cause="A logical replication slot left behind by a removed subscriber holds catalog_xmin back; vacuum can't remove the dead "
          "versions in pg_class, and the import job's TRUNCATE of its staging tables wades through thousands of them.",
    mends="Drop the abandoned slot (pg_drop_replication_slot) and VACUUM the catalogs (pg_class ...); watch slots.",
    settings={"wal_level": "logical"},
    spoil="""
CREATE TABLE import_stage_0 (k int, v int);
CREATE TABLE import_stage_1 (k int, v int);
CREATE TABLE import_stage_2 (k int, v int);
CREATE TABLE import_stage_3 (k int, v int);
CREATE TABLE import_total (k int PRIMARY KEY, v bigint NOT NULL);
INSERT INTO import_total SELECT g, 0 FROM generate_series(0, 3) g;
SELECT pg_create_logical_replication_slot('old_warehouse', 'pgoutput');
SET synchronous_commit = off;
DO $$
BEGIN
  FOR i IN 1..1500 LOOP
    TRUNCATE import_stage_0, import_stage_1, import_stage_2, import_stage_3;
    COMMIT;
  END LOOP;
END $$;
VACUUM pg_class; VACUUM ANALYZE import_total;
""",
    load="""
TRUNCATE import_stage_:client_id;
INSERT INTO import_stage_:client_id SELECT g, g FROM generate_series(1, 30) g;
UPDATE import_total SET v = v + (SELECT sum(v) FROM import_stage_:client_id) WHERE k = :client_id;
""",
    mend="SELECT pg_drop_replication_slot('old_warehouse'); VACUUM FULL pg_class; VACUUM pg_attribute;",
)
