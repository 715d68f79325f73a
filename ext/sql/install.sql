-- The definitions, from the library where it was built.
SET client_min_messages = warning;
\set ECHO none
CREATE SCHEMA pgassay;
\i definitions.sql
\set ECHO all
SELECT count(*) > 10 AS created FROM pg_proc WHERE pronamespace = 'pgassay'::regnamespace;
