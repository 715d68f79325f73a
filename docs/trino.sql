-- The tables of pgassay export, for Trino's Hive connector. LOCATION stands for the directory:
--
--     sed 's|LOCATION|s3://bucket/years|' trino.sql | trino
--
-- The catalog is named hive here, and has hive.timestamp-precision=MICROSECONDS. After each export the
-- calls of sync_partition_metadata make new days known.

CREATE SCHEMA IF NOT EXISTS hive.pgassay;

CREATE TABLE hive.pgassay.servers (
    run VARCHAR,
    arm BIGINT,
    label VARCHAR,
    target VARCHAR,
    launched BOOLEAN,
    version VARCHAR,
    version_num BIGINT,
    major VARCHAR,
    client_transactions BIGINT,
    server_commits BIGINT,
    date DATE
) WITH (external_location = 'LOCATION/servers', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'servers', 'FULL');

CREATE TABLE hive.pgassay.settings (
    run VARCHAR,
    arm BIGINT,
    name VARCHAR,
    value VARCHAR,
    source VARCHAR,
    asked BOOLEAN,
    date DATE
) WITH (external_location = 'LOCATION/settings', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'settings', 'FULL');

CREATE TABLE hive.pgassay.points (
    run VARCHAR,
    stage VARCHAR,
    variant VARCHAR,
    arm BIGINT,
    workload VARCHAR,
    clients BIGINT,
    unit VARCHAR,
    throughput DOUBLE,
    low DOUBLE,
    high DOUBLE,
    trials BIGINT,
    client_bound BOOLEAN,
    warnings VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/points', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'points', 'FULL');

CREATE TABLE hive.pgassay.trials (
    run VARCHAR,
    stage VARCHAR,
    arm BIGINT,
    clients BIGINT,
    trial BIGINT,
    round BIGINT,
    counted BOOLEAN,
    lost VARCHAR,
    why VARCHAR,
    seconds DOUBLE,
    transactions BIGINT,
    failures BIGINT,
    retries BIGINT,
    throughput DOUBLE,
    date DATE
) WITH (external_location = 'LOCATION/trials', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'trials', 'FULL');

CREATE TABLE hive.pgassay.metrics (
    run VARCHAR,
    stage VARCHAR,
    variant VARCHAR,
    arm BIGINT,
    clients BIGINT,
    trial BIGINT,
    metric VARCHAR,
    unit VARCHAR,
    better VARCHAR,
    value DOUBLE,
    low DOUBLE,
    high DOUBLE,
    level DOUBLE,
    trials BIGINT,
    date DATE
) WITH (external_location = 'LOCATION/metrics', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'metrics', 'FULL');

CREATE TABLE hive.pgassay.pairs (
    run VARCHAR,
    arm BIGINT,
    label VARCHAR,
    clients BIGINT,
    phase VARCHAR,
    launch BIGINT,
    round BIGINT,
    a_first BOOLEAN,
    metric VARCHAR,
    unit VARCHAR,
    better VARCHAR,
    a DOUBLE,
    b DOUBLE,
    date DATE
) WITH (external_location = 'LOCATION/pairs', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'pairs', 'FULL');

CREATE TABLE hive.pgassay.findings (
    run VARCHAR,
    seen_by VARCHAR,
    workload VARCHAR,
    id VARCHAR,
    title VARCHAR,
    family VARCHAR,
    severity VARCHAR,
    confidence VARCHAR,
    basis VARCHAR,
    saw VARCHAR,
    place BIGINT,
    expected_gain DOUBLE,
    gain_at_most DOUBLE,
    remedy VARCHAR,
    steps VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/findings', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'findings', 'FULL');

CREATE TABLE hive.pgassay.hosts (
    run VARCHAR,
    machine_id VARCHAR,
    server VARCHAR,
    cpu VARCHAR,
    cpus BIGINT,
    major VARCHAR,
    role VARCHAR,
    audited BOOLEAN,
    diagnosed BOOLEAN,
    incomplete VARCHAR,
    work VARCHAR,
    clients BIGINT,
    throughput DOUBLE,
    low DOUBLE,
    high DOUBLE,
    level DOUBLE,
    trials BIGINT,
    unit VARCHAR,
    warnings VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/hosts', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'hosts', 'FULL');

CREATE TABLE hive.pgassay.audits (
    run VARCHAR,
    id VARCHAR,
    outcome VARCHAR,
    saw VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/audits', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'audits', 'FULL');

CREATE TABLE hive.pgassay.traits (
    run VARCHAR,
    name VARCHAR,
    value VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/traits', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'traits', 'FULL');

CREATE TABLE hive.pgassay.lines (
    run VARCHAR,
    recorded TIMESTAMP(6),
    target VARCHAR,
    version VARCHAR,
    workload VARCHAR,
    what VARCHAR,
    name VARCHAR,
    sessions BIGINT,
    loads DOUBLE,
    stores DOUBLE,
    atomics DOUBLE,
    transfers DOUBLE,
    low DOUBLE,
    high DOUBLE,
    date DATE
) WITH (external_location = 'LOCATION/lines', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'lines', 'FULL');

CREATE TABLE hive.pgassay.runs (
    schema_version BIGINT,
    run VARCHAR,
    content VARCHAR,
    analysed_by VARCHAR,
    measured_by VARCHAR,
    command VARCHAR,
    command_line VARCHAR,
    started TIMESTAMP(6),
    state VARCHAR,
    reason VARCHAR,
    elapsed_seconds DOUBLE,
    trials_measured BIGINT,
    trials_planned BIGINT,
    stage VARCHAR,
    workload VARCHAR,
    work VARCHAR,
    result VARCHAR,
    verdict VARCHAR,
    grade VARCHAR,
    limited_by VARCHAR,
    host VARCHAR,
    machine VARCHAR,
    architecture VARCHAR,
    cpu_model VARCHAR,
    cpus BIGINT,
    memory_bytes BIGINT,
    page_size_bytes BIGINT,
    kernel VARCHAR,
    distribution VARCHAR,
    virtualisation VARCHAR,
    date DATE
) WITH (external_location = 'LOCATION/runs', format = 'PARQUET', partitioned_by = ARRAY['date']);
CALL hive.system.sync_partition_metadata('pgassay', 'runs', 'FULL');
