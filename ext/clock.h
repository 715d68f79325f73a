/*
 * clock.h
 *	  The clock and the random numbers of the loops: both are part of what is
 *	  measured, so both are a few nanoseconds and inlined.
 *
 * Copyright (c) 2026, the pgassay authors; PostgreSQL License, see LICENSE.
 */
#ifndef PGASSAY_CLOCK_H
#define PGASSAY_CLOCK_H

#include <time.h>

#define NS_PER_SECOND INT64CONST(1000000000)
#define NS_PER_US INT64CONST(1000)

/*
 * Nanoseconds of CLOCK_MONOTONIC: the same clock in all processes of a
 * machine, so sessions can agree on an instant.
 */
static inline int64
clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64) now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

/* Busy waiting, for hold times: a sleep would be far too coarse. */
static inline void
clock_spin(int64 duration_ns)
{
	int64		until;

	if (duration_ns <= 0)
		return;
	until = clock_ns() + duration_ns;
	while (clock_ns() < until)
		;
}

/*
 * A Weyl sequence through the finalizer of SplitMix64 (Steele, Lea and Flood,
 * "Fast splittable pseudorandom number generators", 2014): one word of state,
 * good enough to pick blocks, and the same sequence on every version.
 */
typedef struct Rng
{
	uint64		state;
} Rng;

static inline uint64
rng_next(Rng *rng)
{
	uint64		z = (rng->state += UINT64CONST(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* A number of its own for every session of one seed. */
static inline Rng
rng_for(int64 seed, int32 slot)
{
	Rng			rng;

	rng.state = (uint64) seed;
	rng.state = rng_next(&rng) + (uint64) slot * UINT64CONST(0xD1342543DE82EF95);
	return rng;
}

/*
 * Uniform in [0, bound), bound up to 2^32, by the high half of a product: the
 * bias is below bound / 2^32, and there is no division.
 */
static inline uint32
rng_below(Rng *rng, uint32 bound)
{
	return (uint32) (((rng_next(rng) >> 32) * bound) >> 32);
}

/* Uniform in [low, high], both included, over the whole range of int64. */
static inline int64
rng_between(Rng *rng, int64 low, int64 high)
{
	uint64		span = (uint64) high - (uint64) low + 1;

	if (span == 0)
		return (int64) rng_next(rng);
	if (span <= PG_UINT32_MAX)
		return (int64) ((uint64) low + rng_below(rng, (uint32) span));
	return (int64) ((uint64) low + rng_next(rng) % span);
}

#endif							/* PGASSAY_CLOCK_H */
