-- lwlock, spinlock and atomics by one session: what they count must be exact.
SELECT pgassay.arena_create(1, 4) AS arena \gset

SELECT operations, contended, delays FROM pgassay.lwlock(:arena, count => 3000);
SELECT operations, contended FROM pgassay.lwlock(:arena, count => 3000, exclusive_percent => 0);
SELECT operations, contended FROM pgassay.lwlock(:arena, count => 3000, exclusive_percent => 50, locks => 2);
SELECT elapsed_ns >= 100 * 50000 AS held FROM pgassay.lwlock(:arena, count => 100, hold_ns => 50000);
SELECT pgassay.lwlock(:arena, locks => 0);
SELECT pgassay.lwlock(:arena, locks => 5);
SELECT pgassay.lwlock(:arena, exclusive_percent => -1);
SELECT pgassay.lwlock(:arena, exclusive_percent => 101);
SELECT pgassay.lwlock(:arena, hold_ns => -1);
SELECT pgassay.lwlock(:arena, hold_ns => 1000001);

SELECT operations, contended, delays FROM pgassay.spinlock(:arena, count => 3000);
SELECT elapsed_ns >= 3000 * 500 AS held FROM pgassay.spinlock(:arena, count => 3000, hold_ns => 500);
SELECT pgassay.spinlock(:arena, hold_ns => -1);
SELECT pgassay.spinlock(:arena, hold_ns => 1001);

SELECT operation, placement, operations, contended
	FROM unnest(array['swap32', 'swap64', 'add32', 'add64']) AS operation,
		unnest(array['shared', 'padded', 'packed']) AS placement,
		pgassay.atomics(:arena, count => 3000, operation => operation, placement => placement);
SELECT pgassay.atomics(:arena, operation => 'mul32');
SELECT pgassay.atomics(:arena, placement => 'elsewhere');

SELECT * FROM pgassay.arena_state(:arena);
SELECT pgassay.arena_drop(:arena);

-- many sessions must not hold a lock so long that one can't be cancelled
SELECT pgassay.arena_create(11) AS arena \gset
SELECT pgassay.lwlock(:arena, hold_ns => 1000000);
SELECT pgassay.arena_drop(:arena);
